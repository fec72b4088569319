# SPDX-License-Identifier: Apache-2.0
"""Regions sampled bilinearly, and position-sensitive regions, on a GPU.

No kernel can raise an error about a value it reads: a region of an image that is not there reads the last one.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from mx_core.kernels import TensorSpec
from mx_operators_cuda import folds, written
from mx_operators_cuda.codegen import names
from mx_operators_cuda.launch import Kind, make_plan

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall


def _plan(
    call: KernelCall,
    function: str,
    data: TensorSpec,
    rois: int,
    size: tuple[int, ...],
    rule: list[written.Argument],
) -> Any:
    """A launch over data, or its gradient; input 0 is read, and input `rois` has the regions."""
    read, regions, output = call.inputs[0], call.inputs[rois], call.outputs[0]
    if not folds.floating((read, regions, output)) or read.dtype != output.dtype:
        return None
    n = prod(output.shape)
    arguments = [
        written.read((Kind.INPUT, 0), read.dtype), written.read((Kind.INPUT, rois), regions.dtype),
        written.write((Kind.OUTPUT, 0), output.dtype), *rule,
        written.struct("regions::Grid", [written.number(x) for x in (*data.shape, regions.shape[0], *size)]),
    ]  # fmt: skip
    types = [written.value_type(read.dtype), names.STORAGE[read.dtype], names.STORAGE[regions.dtype]]
    steps = [written.launch(call.op.name, f"aligned::{function}", types, arguments, n)] if n else []
    return make_plan(call.op.name, call.context, call.inputs, call.outputs, steps)


def _rule(p: Any) -> list[written.Argument]:
    rotated = hasattr(p, "sampling_ratio")
    samples = p.sampling_ratio if rotated else p.sample_ratio
    flags = (0, 0, 1) if rotated else (int(p.position_sensitive), int(p.aligned), 0)
    numbers = [written.number(n) for n in (samples, *flags)]
    return [written.struct("aligned::Rule", [written.double(p.spatial_scale), *numbers])]


def align(call: KernelCall) -> Any:
    """data, rois -> means of samples."""
    p: Any = call.params
    return _plan(call, "forward", call.inputs[0], 1, p.pooled_size, _rule(p))


def backward_align(call: KernelCall) -> Any:
    """out_grad, data, rois -> data_grad."""
    p: Any = call.params
    return _plan(call, "backward", call.outputs[0], 2, p.pooled_size, _rule(p))


def _bins(p: Any) -> list[written.Argument]:
    return [written.double(p.spatial_scale), written.number(p.group_size or p.pooled_size)]


def position_sensitive(call: KernelCall) -> Any:
    """data, rois -> means of pixels."""
    p: Any = call.params
    return _plan(call, "means", call.inputs[0], 1, (p.pooled_size,) * 2, _bins(p))


def backward_position_sensitive(call: KernelCall) -> Any:
    """out_grad, data, rois -> data_grad."""
    p: Any = call.params
    return _plan(call, "backward_means", call.outputs[0], 2, (p.pooled_size,) * 2, _bins(p))
