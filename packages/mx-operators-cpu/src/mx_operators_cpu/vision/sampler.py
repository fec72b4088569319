# SPDX-License-Identifier: Apache-2.0
"""Images between their pixels: samplers, and the grids they read at."""

from __future__ import annotations

from typing import Any

from mx_core.kernels import KernelCall
from mx_operators_cpu.composite import Composite
from mx_operators_cpu.library import native
from mx_operators_cpu.signature import accumulator, floating, tensors


def sampler(call: KernelCall) -> object:
    """Four weighted corners."""
    return native.sampler_plan(tensors(call.inputs), tensors(call.outputs)) if floating(call) else None


def backward_sampler(call: KernelCall) -> object:
    """Gradients of data and grid."""
    return (
        native.sampler_backward_plan(tensors(call.inputs), tensors(call.outputs)) if floating(call) else None
    )


def grid(call: KernelCall) -> object:
    """Points from matrices, or from flows."""
    p: Any = call.params
    if not floating(call):
        return None
    if p.transform_type == "warp":
        return native.warp_grid_plan(tensors(call.inputs), tensors(call.outputs), backward=False)
    return native.affine_grid_plan(tensors(call.inputs), tensors(call.outputs))


def backward_grid(call: KernelCall) -> object:
    """The transposed map."""
    p: Any = call.params
    if not floating(call):
        return None
    if p.transform_type == "warp":
        return native.warp_grid_plan(tensors(call.inputs), tensors(call.outputs), backward=True)
    return native.affine_grid_backward_plan(tensors(call.inputs), tensors(call.outputs))


def transformer(call: KernelCall) -> object:
    """A grid, then a sampler."""
    p: Any = call.params
    if not floating(call):
        return None
    data, loc = tensors(call.inputs)
    made = Composite(call)
    points = ((loc[0][0], 2, *p.target_shape), accumulator(loc[1]))
    between = made.temporary(*points)
    made.run(native.affine_grid_plan([loc], [points]), [1], [between])
    made.run(native.sampler_plan([data, points], tensors(call.outputs)), [0, between], [made.output(0)])
    return made.plan()
