# SPDX-License-Identifier: Apache-2.0
"""Correlation of patches of two images on a GPU."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from mx_operators_cuda import folds, written
from mx_operators_cuda.codegen import names
from mx_operators_cuda.launch import Kind, make_plan

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall


def _alike(call: KernelCall) -> bool:
    specs = (*call.inputs, *call.outputs)
    return folds.floating(specs) and len({s.dtype for s in specs}) == 1


def _shape(p: Any, data: tuple[int, ...], made: tuple[int, ...]) -> written.Argument:
    numbers = (
        *data, *made[2:], p.max_displacement // p.stride2, p.stride2, p.max_displacement, p.kernel_size, p.stride1,
        p.pad_size, int(p.is_multiply),
    )  # fmt: skip
    return written.struct("correlation::Shape", [written.number(n) for n in numbers])


def correlate(call: KernelCall) -> Any:
    """data1, data2 -> means over patches, a channel per displacement."""
    if not _alike(call):
        return None
    data, made = call.inputs[0], call.outputs[0]
    arguments = [
        *(written.read((Kind.INPUT, i), data.dtype) for i in (0, 1)), written.write((Kind.OUTPUT, 0), data.dtype),
        _shape(call.params, data.shape, made.shape),
    ]  # fmt: skip
    types, n = [written.value_type(data.dtype), names.STORAGE[data.dtype]], prod(made.shape)
    steps = [written.launch(call.op.name, "correlation::forward", types, arguments, n)] if n else []
    return make_plan(call.op.name, call.context, call.inputs, call.outputs, steps)


def backward_correlate(call: KernelCall) -> Any:
    """out_grad, data1, data2 -> data1_grad, data2_grad."""
    if not _alike(call):
        return None
    head, data = call.inputs[:2]
    types, n = [written.value_type(data.dtype), names.STORAGE[data.dtype]], prod(data.shape)
    steps = []
    for o in (0, 1) if n else ():
        arguments = [
            *(written.read((Kind.INPUT, i), data.dtype) for i in range(3)),
            written.write((Kind.OUTPUT, o), data.dtype), written.number(o),
            _shape(call.params, data.shape, head.shape),
        ]  # fmt: skip
        steps.append(written.launch(call.op.name, "correlation::backward", types, arguments, n))
    return make_plan(call.op.name, call.context, call.inputs, call.outputs, steps)
