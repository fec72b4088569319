# SPDX-License-Identifier: Apache-2.0
"""Regions of interest: aligned means, maxima, proposals; self-exciting processes."""

from __future__ import annotations

from collections.abc import Callable
from math import floor, sqrt
from typing import Any

from mx_core.kernels import KernelCall
from mx_operators_cpu.library import native
from mx_operators_cpu.signature import FLOATS, floating, plain, real, tensors


def _align(call: KernelCall, make: Callable[..., Any]) -> object:
    p: Any = call.params
    if not real(call):
        return None
    return make(
        tensors(call.inputs), tensors(call.outputs), bins=p.pooled_size, scale=p.spatial_scale,
        samples=p.sample_ratio, sensitive=p.position_sensitive, aligned=p.aligned,
    )  # fmt: skip


def roi_align(call: KernelCall) -> object:
    """Means of bilinear samples."""
    return _align(call, native.roi_align_plan)


def backward_roi_align(call: KernelCall) -> object:
    """Shares given back."""
    return _align(call, native.roi_align_backward_plan)


def _pooling(call: KernelCall, make: Callable[..., Any]) -> object:
    p: Any = call.params
    if not plain(*call.inputs, *call.outputs) or call.inputs[0].dtype not in FLOATS:
        return None
    return make(tensors(call.inputs), tensors(call.outputs), bins=p.pooled_size, scale=p.spatial_scale)


def roi_pooling(call: KernelCall) -> object:
    """Maxima and where they are."""
    return _pooling(call, native.roi_pooling_plan)


def backward_roi_pooling(call: KernelCall) -> object:
    """Gradients added up where the maxima were."""
    return _pooling(call, native.roi_pooling_backward_plan)


def _rotated(call: KernelCall, make: Callable[..., Any]) -> object:
    p: Any = call.params
    if not floating(call):
        return None
    return make(
        tensors(call.inputs), tensors(call.outputs), bins=p.pooled_size, scale=p.spatial_scale,
        samples=p.sampling_ratio,
    )  # fmt: skip


def rotated_align(call: KernelCall) -> object:
    """Means of bilinear samples in rotated regions."""
    return _rotated(call, native.rotated_align_plan)


def backward_rotated_align(call: KernelCall) -> object:
    """Shares given back."""
    return _rotated(call, native.rotated_align_backward_plan)


def _psroi(call: KernelCall, make: Callable[..., Any]) -> object:
    p: Any = call.params
    if not floating(call):
        return None
    return make(
        tensors(call.inputs), tensors(call.outputs), bins=(p.pooled_size, p.pooled_size),
        scale=p.spatial_scale, groups=p.group_size or p.pooled_size,
    )  # fmt: skip


def psroi_pooling(call: KernelCall) -> object:
    """Means of windows, each of the channels of its group."""
    return _psroi(call, native.psroi_pooling_plan)


def backward_psroi_pooling(call: KernelCall) -> object:
    """Shared equally among a bin's elements."""
    return _psroi(call, native.psroi_pooling_backward_plan)


# ---- proposals ----


def _anchors(p: Any) -> list[list[float]]:
    """Of position (0, 0): corners in whole pixels, both included."""
    side, made = p.feature_stride, []
    for ratio in p.ratios:
        width = floor(sqrt(floor(side * side / ratio)) + 0.5)
        height = floor(width * ratio + 0.5)
        for scale in p.scales:
            half_x, half_y = (width * scale - 1) / 2, (height * scale - 1) / 2
            middle = (side - 1) / 2
            made.append([middle - half_x, middle - half_y, middle + half_x, middle + half_y])
    return made


def proposal(call: KernelCall) -> object:
    """The best boxes of every image."""
    p: Any = call.params
    if not floating(call):
        return None
    return native.proposal_plan(
        tensors(call.inputs), tensors(call.outputs), anchors=_anchors(p), stride=p.feature_stride,
        considered=p.rpn_pre_nms_top_n, returned=p.rpn_post_nms_top_n, threshold=p.threshold,
        least_size=p.rpn_min_size, by_corners=p.iou_loss, name=call.op.name,
    )  # fmt: skip


# ---- self-exciting processes ----


def hawkes(call: KernelCall) -> object:
    """Likelihoods, and states at the end."""
    return native.hawkes_plan(tensors(call.inputs), tensors(call.outputs)) if real(call) else None


def backward_hawkes(call: KernelCall) -> object:
    """Slopes that run along with the likelihood."""
    return native.hawkes_backward_plan(tensors(call.inputs), tensors(call.outputs)) if real(call) else None
