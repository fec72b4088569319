# SPDX-License-Identifier: Apache-2.0
"""Regions of interest on a GPU.

No kernel can raise an error about a value it reads: a region of an image that is not there reads the last one.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_core.kernels import TensorSpec
from mx_operators_cuda import folds, written
from mx_operators_cuda.codegen import names
from mx_operators_cuda.launch import Kind, make_plan

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

_INT32 = dtypes.code("int32")


def _plan(
    call: KernelCall, function: str, data: TensorSpec, rois: int, tensors: list[written.Argument], n: int
) -> Any:
    p: Any = call.params
    regions = call.inputs[rois]
    floats = [s for s in (*call.inputs, *call.outputs) if s.dtype != _INT32]
    if not folds.floating(floats) or len({s.dtype for s in floats if s is not regions}) > 1:
        return None
    numbers = (*data.shape, regions.shape[0], *p.pooled_size)
    arguments = [
        *tensors, written.double(p.spatial_scale),
        written.struct("regions::Grid", [written.number(x) for x in numbers]),
    ]  # fmt: skip
    types = [written.value_type(data.dtype), names.STORAGE[data.dtype], names.STORAGE[regions.dtype]]
    steps = [written.launch(call.op.name, f"regions::{function}", types, arguments, n)] if n else []
    return make_plan(call.op.name, call.context, call.inputs, call.outputs, steps)


def roi_pooling(call: KernelCall) -> Any:
    """data, rois -> output, maxidx."""
    data, rois = call.inputs
    tensors = [
        written.read((Kind.INPUT, 0), data.dtype), written.read((Kind.INPUT, 1), rois.dtype),
        written.write((Kind.OUTPUT, 0), data.dtype), written.write((Kind.OUTPUT, 1), _INT32),
    ]  # fmt: skip
    return _plan(call, "roi_pooling", data, 1, tensors, prod(call.outputs[0].shape))


def backward_roi_pooling(call: KernelCall) -> Any:
    """out_grad, data, rois, maxidx -> data_grad."""
    head, data, rois = call.inputs[:3]
    tensors = [
        written.read((Kind.INPUT, 0), head.dtype), written.read((Kind.INPUT, 2), rois.dtype),
        written.read((Kind.INPUT, 3), _INT32), written.write((Kind.OUTPUT, 0), data.dtype),
    ]  # fmt: skip
    return _plan(call, "backward_roi_pooling", data, 2, tensors, prod(data.shape))
