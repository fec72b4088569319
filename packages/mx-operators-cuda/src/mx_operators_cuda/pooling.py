# SPDX-License-Identifier: Apache-2.0
"""Pooling and its gradient on a GPU."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_core.expression import compute_dtype
from mx_operators.nn.pooling import PoolingParam, channels_last, geometry
from mx_operators_cuda import written
from mx_operators_cuda.codegen import names
from mx_operators_cuda.launch import Kind, make_plan

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall, TensorSpec

_FLOATS = frozenset(dtypes.code(n) for n in ("float16", "bfloat16", "float32", "float64"))
_KINDS = {"max": "mx::pooling::kMaximum", "avg": "mx::pooling::kAverage", "sum": "mx::pooling::kSum",
          "lp": "mx::pooling::kNorm"}  # fmt: skip
#: the lowest finite number of each compute type
_LOWEST = {0: -3.4028234663852886e38, 1: -1.7976931348623157e308}


def _geometry(p: PoolingParam, data: TensorSpec) -> written.Argument:
    last = channels_last(p)
    spatial = data.shape[1:-1] if last else data.shape[2:]
    axes = [(1, 1, 1, 0, 1)] * (3 - len(spatial))
    axes += [(size, out, k, q, s) for size, (k, s, q, out) in zip(spatial, geometry(p, spatial), strict=True)]
    sizes, outs, kernels, pads, strides = zip(*axes, strict=True)
    padding = p.count_include_pad is not False
    exponent = 1 if p.p_value is None else p.p_value
    numbers = (
        data.shape[0], data.shape[-1 if last else 1], *sizes, *outs, *kernels, *strides, *pads, int(last),
        int(padding), exponent,
    )  # fmt: skip
    return written.struct("pooling::Geometry", [written.number(n) for n in numbers])


def _fits(call: KernelCall, data: TensorSpec) -> bool:
    specs = (*call.inputs, *call.outputs)
    same = len({spec.dtype for spec in specs}) == 1 and data.dtype in _FLOATS
    return same and len(data.shape) <= 5 and not any(spec.layout for spec in specs)


def pool(call: KernelCall) -> Any:
    """data -> output."""
    p: Any = call.params
    (data,), (result,) = call.inputs, call.outputs
    if not _fits(call, data):
        return None
    code, n = data.dtype, prod(result.shape)
    arguments = [
        written.read((Kind.INPUT, 0), code), written.write((Kind.OUTPUT, 0), code),
        written.constant(_LOWEST[compute_dtype((code,))], code), _geometry(p, data),
    ]  # fmt: skip
    types = [written.value_type(code), _KINDS[p.pool_type], names.STORAGE[code]]
    steps = [written.launch("Pooling", "pooling::forward", types, arguments, n)] if n else []
    return make_plan(call.op.name, call.context, call.inputs, call.outputs, steps)


def backward_pool(call: KernelCall) -> Any:
    """out_grad, data, output -> data_grad."""
    p: Any = call.params
    data = call.inputs[1]
    if not _fits(call, data):
        return None
    code, n = data.dtype, prod(data.shape)
    arguments = [
        *(written.read((Kind.INPUT, i), code) for i in range(3)), written.write((Kind.OUTPUT, 0), code),
        _geometry(p, data),
    ]  # fmt: skip
    types = [written.value_type(code), _KINDS[p.pool_type], names.STORAGE[code]]
    steps = [written.launch("Pooling", "pooling::backward", types, arguments, n)] if n else []
    return make_plan(call.op.name, call.context, call.inputs, call.outputs, steps)
