# SPDX-License-Identifier: Apache-2.0
"""Boxes: overlap, suppression, matching, anchors, the single-shot detector."""

from __future__ import annotations

from math import prod, sqrt
from typing import Any

from mx_core.kernels import KernelCall, TensorSpec
from mx_operators_cpu.library import native
from mx_operators_cpu.signature import FLOATS, Tensor, floating, plain, real, tensors


def box_iou(call: KernelCall) -> object:
    """Overlaps of all pairs."""
    p: Any = call.params
    if not floating(call):
        return None
    return native.box_iou_plan(tensors(call.inputs), tensors(call.outputs), center=p.format == "center")


def _batched(spec: TensorSpec, axes: int) -> Tensor:
    """All axes but the last ones as one."""
    lead = len(spec.shape) - axes
    return (prod(spec.shape[:lead]), *spec.shape[lead:]), spec.dtype


def box_nms(call: KernelCall) -> object:
    """Surviving rows, and where they came from."""
    p: Any = call.params
    if not plain(*call.inputs, *call.outputs) or call.inputs[0].dtype not in FLOATS:
        return None
    return native.box_nms_plan(
        [_batched(call.inputs[0], 2)], tensors(call.outputs), overlap=p.overlap_thresh, valid=p.valid_thresh,
        topk=p.topk, coordinates=p.coord_start, score=p.score_index, id=p.id_index, background=p.background_id,
        force=p.force_suppress, center_in=p.in_format == "center", center_out=p.out_format == "center",
    )  # fmt: skip


def backward_box_nms(call: KernelCall) -> object:
    """Rows back to where they came from."""
    head, source, *rest = call.inputs
    if not plain(*call.inputs, *call.outputs) or head.dtype not in FLOATS:
        return None
    given = [_batched(head, 2), *tensors((source, *rest))]
    return native.box_nms_backward_plan(given, tensors(call.outputs))


def bipartite_matching(call: KernelCall) -> object:
    """The best pairs."""
    p: Any = call.params
    if not real(call):
        return None
    return native.bipartite_plan(
        [_batched(call.inputs[0], 2)], tensors(call.outputs), ascending=p.is_ascend, threshold=p.threshold,
        topk=p.topk,
    )  # fmt: skip


def box_encode(call: KernelCall) -> object:
    """Targets and their mask."""
    if not floating(call):
        return None
    return native.box_encode_plan(tensors(call.inputs), tensors(call.outputs))


def box_decode(call: KernelCall) -> object:
    """Boxes from offsets."""
    p: Any = call.params
    if not floating(call):
        return None
    return native.box_decode_plan(tensors(call.inputs), tensors(call.outputs), corner=p.format == "corner")


def multibox_prior(call: KernelCall) -> object:
    """Anchors of every position."""
    p: Any = call.params
    if not real(call):
        return None
    height, width = call.inputs[0].shape[2:]
    kinds = [(size, p.ratios[0]) for size in p.sizes] + [(p.sizes[0], ratio) for ratio in p.ratios[1:]]
    step_y, step_x = (s if s > 0 else 1 / max(n, 1) for s, n in zip(p.steps, (height, width), strict=True))
    return native.multibox_prior_plan(
        tensors(call.inputs), tensors(call.outputs), height=height, width=width,
        half_x=[size * height / max(width, 1) * sqrt(ratio) / 2 for size, ratio in kinds],
        half_y=[size / sqrt(ratio) / 2 for size, ratio in kinds],
        steps=(step_y, step_x), offsets=tuple(p.offsets), clip=p.clip,
    )  # fmt: skip


def multibox_target(call: KernelCall) -> object:
    """Training targets of anchors."""
    p: Any = call.params
    if not floating(call) or (call.inputs[2].shape[1] == 0 and p.negative_mining_ratio > 0):
        return None
    return native.multibox_target_plan(
        tensors(call.inputs), tensors(call.outputs), overlap=p.overlap_threshold, ignored=p.ignore_label,
        mining_ratio=p.negative_mining_ratio, mining_overlap=p.negative_mining_thresh, variances=p.variances,
    )  # fmt: skip


def multibox_detection(call: KernelCall) -> object:
    """Detections of every image."""
    p: Any = call.params
    if not floating(call):
        return None
    return native.multibox_detection_plan(
        tensors(call.inputs), tensors(call.outputs), threshold=p.threshold, overlap=p.nms_threshold, clip=p.clip,
        force=p.force_suppress, topk=p.nms_topk, variances=p.variances,
    )  # fmt: skip
