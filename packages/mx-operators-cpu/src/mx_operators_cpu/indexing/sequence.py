# SPDX-License-Identifier: Apache-2.0
"""SequenceMask, SequenceLast, SequenceReverse, shuffle: rows copied by a rule."""

from __future__ import annotations

from math import prod
from typing import Any

from mx_core.kernels import KernelCall
from mx_operators_cpu.library import native
from mx_operators_cpu.signature import plain, tensors


def _sequences(call: KernelCall, rule: str, shape: tuple[int, ...], lengths: int) -> object:
    p: Any = call.params
    if not plain(*call.inputs, *call.outputs):
        return None
    return native.row_plan(
        tensors(call.inputs), tensors(call.outputs), op=call.op.name, rule=rule, steps=shape[p.axis],
        batch=shape[1 - p.axis], inner=prod(shape[2:]), batch_first=p.axis == 1,
        lengths=lengths if p.use_sequence_length else None,
    )  # fmt: skip


def mask(call: KernelCall) -> object:
    """A constant after the end of each sequence."""
    return _sequences(call, "mask", call.inputs[0].shape, 1)


def last(call: KernelCall) -> object:
    """The last step of each sequence."""
    return _sequences(call, "last", call.inputs[0].shape, 1)


def backward_last(call: KernelCall) -> object:
    """The gradient at the last steps."""
    return _sequences(call, "spread", call.outputs[0].shape, 2)


def reverse(call: KernelCall) -> object:
    """Each sequence back to front."""
    return _sequences(call, "reverse", call.inputs[0].shape, 1)


def shuffle(call: KernelCall) -> object:
    """Rows in random order."""
    shape = call.inputs[0].shape
    if not shape or not plain(*call.inputs, *call.outputs):
        return None
    return native.row_plan(
        tensors(call.inputs), tensors(call.outputs), op=call.op.name, rule="shuffle", steps=shape[0], batch=1,
        inner=prod(shape[1:]),
    )  # fmt: skip
