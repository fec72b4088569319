# SPDX-License-Identifier: Apache-2.0
"""Regions of interest: aligned means, and maxima."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mx_core.kernels import KernelCall
from mx_operators_cpu import _vector
from mx_operators_cpu.vector.signature import FLOATS, plain, real, tensors


def _align(call: KernelCall, make: Callable[..., Any]) -> Any:
    p: Any = call.params
    if not real(call):
        return None
    return make(
        tensors(call.inputs), tensors(call.outputs), bins=p.pooled_size, scale=p.spatial_scale,
        samples=p.sample_ratio, sensitive=p.position_sensitive, aligned=p.aligned,
    )  # fmt: skip


def roi_align(call: KernelCall) -> Any:
    """Means of bilinear samples."""
    return _align(call, _vector.roi_align_plan)


def backward_roi_align(call: KernelCall) -> Any:
    """Shares given back."""
    return _align(call, _vector.roi_align_backward_plan)


def _pooling(call: KernelCall, make: Callable[..., Any]) -> Any:
    p: Any = call.params
    if not plain(*call.inputs, *call.outputs) or call.inputs[0].dtype not in FLOATS:
        return None
    return make(tensors(call.inputs), tensors(call.outputs), bins=p.pooled_size, scale=p.spatial_scale)


def roi_pooling(call: KernelCall) -> Any:
    """Maxima and where they are."""
    return _pooling(call, _vector.roi_pooling_plan)


def backward_roi_pooling(call: KernelCall) -> Any:
    """Gradients added up where the maxima were."""
    return _pooling(call, _vector.roi_pooling_backward_plan)
