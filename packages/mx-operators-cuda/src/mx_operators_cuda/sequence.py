# SPDX-License-Identifier: Apache-2.0
"""SequenceMask, SequenceLast, SequenceReverse on a GPU.

No kernel can raise an error about a length it reads: lengths are limited to the steps that there are.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from mx_operators_cuda import written
from mx_operators_cuda.codegen import names
from mx_operators_cuda.launch import Kind, make_plan

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall


def _plan(call: KernelCall, rule: str, shape: tuple[int, ...], lengths: int, value: bool = False) -> Any:
    """A plan over data of a shape; `lengths` is the input that has them, if there are any."""
    p: Any = call.params
    specs = (*call.inputs, *call.outputs)
    if (
        any(s.layout or s.dtype not in names.STORAGE for s in specs)
        or call.inputs[0].dtype != call.outputs[0].dtype
    ):
        return None
    code, n = call.outputs[0].dtype, prod(call.outputs[0].shape)
    given = len(call.inputs) > lengths and p.use_sequence_length
    kind = call.inputs[lengths].dtype if given else code
    numbers = (shape[p.axis], shape[1 - p.axis], prod(shape[2:]), p.axis)
    arguments = [
        written.read((Kind.INPUT, 0), code),
        written.read((Kind.INPUT, lengths), kind) if given else written.absent(kind),
        written.write((Kind.OUTPUT, 0), code), *([written.scalar(0)] if value else []),
        written.struct("sequence::Steps", [written.number(x) for x in numbers]),
    ]  # fmt: skip
    types = [written.value_type(code), names.STORAGE[code], names.STORAGE[kind]]
    steps = [written.launch(call.op.name, f"sequence::{rule}", types, arguments, n)] if n else []
    return make_plan(
        call.op.name, call.context, call.inputs, call.outputs, steps, n_scalars=len(call.params.scalars)
    )  # fmt: skip


def mask(call: KernelCall) -> Any:
    """A run-time number behind the end of each sequence."""
    return _plan(call, "mask", call.inputs[0].shape, 1, value=True)


def last(call: KernelCall) -> Any:
    """The last step of each sequence."""
    return _plan(call, "last", call.inputs[0].shape, 1)


def backward_last(call: KernelCall) -> Any:
    """The gradient at the last steps, zeros elsewhere."""
    return _plan(call, "spread", call.outputs[0].shape, 2)


def reverse(call: KernelCall) -> Any:
    """Each sequence back to front."""
    return _plan(call, "reverse", call.inputs[0].shape, 1)
