# SPDX-License-Identifier: Apache-2.0
"""The single-shot detector: anchors, training targets, detections.

Source: Liu et al., SSD: Single Shot MultiBox Detector, ECCV 2016.
"""

from __future__ import annotations

import numpy as np

from mx_core.operator import Array, Arrays, Operator, Params, ReferenceContext, Shapes, opt
from mx_operators.nn.base import wide
from mx_operators.nn.softmax import softmax
from mx_operators.vision.base import image_shape
from mx_operators.vision.box_codec import decoded, encoded
from mx_operators.vision.boxes import clipped, iou, suppress, to_center

Floats = tuple[float, ...]


class MultiBoxPriorParam(Params):
    """Sizes and places of the anchors."""

    sizes: Floats = opt((1.0,), "sizes relative to the image")
    ratios: Floats = opt((1.0,), "width over height", lower=1e-12)
    clip: bool = opt(False, "cut anchors to the image")
    steps: Floats = opt((-1.0, -1.0), "distance of anchors (y, x); not above 0: 1/extent")
    offsets: Floats = opt((0.5, 0.5), "place of the first anchor (y, x), in steps")


class MultiBoxPrior(Operator[MultiBoxPriorParam]):
    """Anchors for every position of a feature map data (N, C, H, W): (1, H·W·A, 4), corner form.

    A position has A = sizes + ratios − 1 anchors: all sizes with the first ratio, then the first
    size with the other ratios. Only the shape of data is read.
    """

    name = "_contrib_MultiBoxPrior"
    aliases = ("_npx_multibox_prior",)
    shape_only = ("data",)
    differentiable = False

    def infer_shape(self, p: MultiBoxPriorParam, s: Shapes) -> None:
        """From the extents of the map."""
        data = image_shape(s)
        for name in ("steps", "offsets"):
            if len(getattr(p, name)) != 2:
                raise s.error(f"{name}: expected 2 values, got {getattr(p, name)}")
        if not p.sizes or not p.ratios:
            raise s.error("sizes, ratios: expected at least one value each")
        if data is not None:
            count = len(p.sizes) + len(p.ratios) - 1
            s.assign("output", (1, -1 if -1 in data[2:] else data[2] * data[3] * count, 4))

    def reference(self, p: MultiBoxPriorParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        height, width = inputs[0].shape[2:]
        shapes = [(size, p.ratios[0]) for size in p.sizes]
        shapes += [(p.sizes[0], ratio) for ratio in p.ratios[1:]]
        half = np.array([
            (size * height / max(width, 1) * np.sqrt(ratio) / 2, size / np.sqrt(ratio) / 2)
            for size, ratio in shapes
        ])  # fmt: skip
        steps = [s if s > 0 else 1 / max(n, 1) for s, n in zip(p.steps, (height, width), strict=True)]
        y = (np.arange(height) + p.offsets[0]) * steps[0]
        x = (np.arange(width) + p.offsets[1]) * steps[1]
        middle = np.stack(np.broadcast_arrays(x, y[:, None]), -1)[:, :, None]
        anchors = np.concatenate((middle - half, middle + half), -1).reshape(1, -1, 4)
        return ((clipped(anchors) if p.clip else anchors).astype(inputs[0].dtype),)


class MultiBoxTargetParam(Params):
    """When anchors match, and which negatives count."""

    overlap_threshold: float = opt(0.5, "anchors that overlap an object by more are positive")
    ignore_label: float = opt(-1.0, "class target of anchors that do not count")
    negative_mining_ratio: float = opt(-1.0, "negatives per positive; not above 0: all of them")
    negative_mining_thresh: float = opt(0.5, "anchors that overlap an object by less may be negatives")
    minimum_negative_samples: int = opt(0, "accepted for compatibility; counts nowhere")
    variances: Floats = opt((0.1, 0.1, 0.2, 0.2), "divisors of the location targets")


class MultiBoxTarget(Operator[MultiBoxTargetParam]):
    """Training targets of anchors (1, A, 4) for objects label (B, M, ≥5) = (class, corner box, …).

    Objects end at class −1. Outputs: location targets and their mask (B, 4A), class targets (B, A)
    with 0 for background. Negatives are mined where cls_pred (B, classes, A) is least sure of the
    background. No gradient.
    """

    name = "_contrib_MultiBoxTarget"
    floating_only = True
    aliases = ("_npx_multibox_target",)
    arguments = ("anchor", "label", "cls_pred")
    results = ("loc_target", "loc_mask", "cls_target")
    differentiable = False

    def infer_shape(self, p: MultiBoxTargetParam, s: Shapes) -> None:
        anchor, label, predicted = (s.get(name) for name in self.arguments)
        if len(p.variances) != 4:
            raise s.error(f"variances: expected 4 values, got {p.variances}")
        s.assign("anchor", (1, -1, 4))
        if label is not None and (len(label) != 3 or 0 <= label[2] < 5):
            raise s.error(f"label: expected (B, M, ≥5), got {label}")
        if anchor is None or label is None:
            return
        if predicted is not None and len(predicted) != 3:
            raise s.error(f"cls_pred: expected (B, classes, A), got {predicted}")
        s.assign("cls_pred", (label[0], -1, anchor[1]))
        flat = (label[0], 4 * anchor[1] if anchor[1] >= 0 else -1)
        s.assign("loc_target", flat)
        s.assign("loc_mask", flat)
        s.assign("cls_target", (label[0], anchor[1]))

    def reference(self, p: MultiBoxTargetParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        anchor, labels, predicted = (wide(x) for x in inputs)
        batch, count = labels.shape[0], anchor.shape[1]
        location = np.zeros((batch, count, 4), anchor.dtype)
        mask = np.zeros_like(location)
        classes = np.full((batch, count), p.ignore_label, anchor.dtype)
        for i in range(batch):
            end = labels[i, :, 0] == -1
            objects = labels[i, : int(end.argmax()) if end.any() else len(end)]
            if not len(objects) or not count:
                continue
            match, overlap, positive = _matched(anchor[0], objects[:, 1:5], p.overlap_threshold)
            classes[i, _negatives(predicted[i], overlap, positive, p)] = 0
            classes[i, positive] = objects[match[positive], 0] + 1
            target = encoded(objects[match[positive], 1:5], anchor[0, positive])
            location[i, positive] = target / np.array(p.variances, anchor.dtype)
            mask[i, positive] = 1
        kind = inputs[0].dtype
        flat = (batch, 4 * count)
        return location.reshape(flat).astype(kind), mask.reshape(flat).astype(kind), classes.astype(kind)


def _matched(anchors: Array, objects: Array, threshold: float) -> tuple[Array, Array, Array]:
    """Per anchor the object it is matched with, their overlap, and whether it is positive."""
    overlaps = iou(anchors, objects)
    match, best = overlaps.argmax(1), overlaps.max(1)
    positive = np.zeros(len(anchors), bool)
    left = overlaps.copy()
    for _ in range(min(left.shape)):
        row, column = np.unravel_index(left.argmax(), left.shape)
        if left[row, column] <= 1e-6:
            break
        match[row], best[row], positive[row] = column, left[row, column], True
        left[row], left[:, column] = -1, -1
    if threshold > 0:
        positive |= best > threshold
    return match, best, positive


def _negatives(predicted: Array, overlap: Array, positive: Array, p: MultiBoxTargetParam) -> Array:
    """Indices of the anchors that count as background."""
    if p.negative_mining_ratio <= 0:
        return np.flatnonzero(~positive)
    many = int(positive.sum() * p.negative_mining_ratio)
    many = min(many, len(positive) - int(positive.sum()))
    candidates = np.flatnonzero(~positive & (overlap < p.negative_mining_thresh))
    background = softmax(predicted[:, candidates], 0)[0]
    return candidates[np.argsort(background, kind="stable")[:many]]


class MultiBoxDetectionParam(Params):
    """Thresholds, and how boxes are decoded."""

    clip: bool = opt(True, "cut boxes to the image")
    threshold: float = opt(0.01, "objects of lower probability are dropped")
    background_id: int = opt(0, "accepted for compatibility: class 0 is always the background")
    nms_threshold: float = opt(
        0.5,
        "boxes that overlap a better one by as much are suppressed; outside of (0, 1], none, and none is moved",
    )
    force_suppress: bool = opt(False, "boxes of different classes compete, too")
    variances: Floats = opt((0.1, 0.1, 0.2, 0.2), "factors of the location predictions")
    nms_topk: int = opt(-1, "only the best ones are kept; −1: all")


class MultiBoxDetection(Operator[MultiBoxDetectionParam]):
    """Detections (B, A, 6) = (class, probability, corner box), best first; class −1 is none.

    cls_prob (B, classes, A) with class 0 the background, loc_pred (B, 4A), anchor (1, A, 4).
    Classes of results count without the background. No gradient.
    """

    name = "_contrib_MultiBoxDetection"
    floating_only = True
    aliases = ("_npx_multibox_detection",)
    arguments = ("cls_prob", "loc_pred", "anchor")
    differentiable = False
    custom_gradient = True

    def infer_shape(self, p: MultiBoxDetectionParam, s: Shapes) -> None:
        prob = s.get("cls_prob")
        if len(p.variances) != 4:
            raise s.error(f"variances: expected 4 values, got {p.variances}")
        if prob is None:
            return
        if len(prob) != 3 or 0 <= prob[1] < 2:
            raise s.error(f"cls_prob: expected (B, ≥2 classes, A), got {prob}")
        s.assign("loc_pred", (prob[0], 4 * prob[2] if prob[2] >= 0 else -1))
        s.assign("anchor", (1, prob[2], 4))
        s.assign("output", (prob[0], prob[2], 6))

    def reference(self, p: MultiBoxDetectionParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        prob, offsets, anchors = (wide(x) for x in inputs)
        batch, _, count = prob.shape
        output = np.full((batch, count, 6), -1, prob.dtype)
        scaled = offsets.reshape(batch, count, 4) * np.array(p.variances, prob.dtype)
        boxes = decoded(scaled, to_center(anchors))
        if p.clip:
            boxes = clipped(boxes)
        for i in range(batch):
            best, score = prob[i, 1:].argmax(0), prob[i, 1:].max(0)
            valid = np.flatnonzero(score >= p.threshold)
            found = np.concatenate((best[valid, None], score[valid, None], boxes[i, valid]), 1)
            output[i, : len(found)] = found
            if not 0 < p.nms_threshold <= 1:
                continue  # nothing is suppressed: the order of the anchors stays
            order = np.argsort(-found[:, 1], kind="stable")
            if p.nms_topk > 0:
                order = order[: p.nms_topk]
            output[i, len(order) : len(found), 0] = -1
            top = found[order]
            classes = None if p.force_suppress else top[:, 0]
            top[~suppress(top[:, 2:], classes, p.nms_threshold, closed=True), 0] = -1
            output[i, : len(order)] = top
        return (output.astype(inputs[0].dtype),)
