# SPDX-License-Identifier: Apache-2.0
"""Local response normalization on a GPU."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from mx_operators_cuda import folds, written
from mx_operators_cuda.codegen import names
from mx_operators_cuda.launch import Kind, make_plan

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall


def _plan(call: KernelCall, function: str, tensors: list[written.Argument], constants: list[float]) -> Any:
    p: Any = call.params
    shape, code = call.outputs[0].shape, call.outputs[0].dtype
    if not folds.floating((*call.inputs, *call.outputs)):
        return None
    numbers = (shape[0], shape[1], prod(shape[2:]), min((p.nsize - 1) // 2, shape[1]))
    arguments = [
        *tensors,
        *map(written.double, constants),
        written.struct("lrn::Geometry", [written.number(n) for n in numbers]),
    ]
    types, n = [written.value_type(code), names.STORAGE[code]], prod(shape)
    steps = [written.launch("LRN", f"lrn::{function}", types, arguments, n)] if n else []
    return make_plan(call.op.name, call.context, call.inputs, call.outputs, steps)


def forward(call: KernelCall) -> Any:
    """data -> output, tmp_norm."""
    p: Any = call.params
    code = call.inputs[0].dtype
    tensors = [written.read((Kind.INPUT, 0), code), *(written.write((Kind.OUTPUT, o), code) for o in (0, 1))]
    return _plan(call, "forward", tensors, [p.alpha / p.nsize, p.beta, p.knorm])


def backward(call: KernelCall) -> Any:
    """out_grad, data, tmp_norm -> data_grad."""
    p: Any = call.params
    code = call.inputs[0].dtype
    tensors = [
        *(written.read((Kind.INPUT, i), code) for i in range(3)),
        written.write((Kind.OUTPUT, 0), code),
    ]
    return _plan(call, "backward", tensors, [p.alpha / p.nsize, p.beta])
