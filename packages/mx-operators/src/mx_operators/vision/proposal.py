# SPDX-License-Identifier: Apache-2.0
"""Region proposals.

Source: Ren et al., Faster R-CNN: Towards Real-Time Object Detection with Region Proposal Networks,
NIPS 2015.
"""

from __future__ import annotations

import numpy as np

from mx_core.operator import Array, Arrays, Operator, Params, ReferenceContext, Shapes, opt
from mx_operators.nn.base import wide
from mx_operators.vision.base import image_shape

Floats = tuple[float, ...]


class ProposalParam(Params):
    """Anchors, thresholds, numbers."""

    rpn_pre_nms_top_n: int = opt(6000, "how many of the best boxes are considered; not above 0: all")
    rpn_post_nms_top_n: int = opt(300, "how many boxes are returned", lower=1)
    threshold: float = opt(0.7, "boxes that overlap a better one by more are suppressed")
    rpn_min_size: int = opt(16, "smaller boxes count as worst, in pixels of the unscaled image")
    scales: Floats = opt((4.0, 8.0, 16.0, 32.0), "scales of the anchors")
    ratios: Floats = opt((0.5, 1.0, 2.0), "height over width of the anchors", lower=1e-12)
    feature_stride: int = opt(16, "pixels per position of the feature map", lower=1)
    output_score: bool = opt(False, "return the scores, too")
    iou_loss: bool = opt(False, "bbox_pred are offsets of corners, not of centre and log extents")


def anchors(p: ProposalParam) -> Array:
    """The anchors of position (0, 0): (ratios · scales, 4), corners in whole pixels, both included."""
    side = p.feature_stride
    made = []
    for ratio in p.ratios:
        width = np.floor(np.sqrt(np.floor(side * side / ratio)) + 0.5)
        height = np.floor(width * ratio + 0.5)
        for scale in p.scales:
            half = np.array([width * scale - 1, height * scale - 1]) / 2
            made.append(np.concatenate(((side - 1) / 2 - half, (side - 1) / 2 + half)))
    return np.array(made)


def regressed(boxes: Array, offsets: Array, by_corners: bool) -> Array:
    """Boxes moved by predicted offsets; all (…, 4)."""
    if by_corners:
        return boxes + offsets
    sides = boxes[..., 2:] - boxes[..., :2] + 1
    middle = boxes[..., :2] + (sides - 1) / 2 + offsets[..., :2] * sides
    half = (np.exp(offsets[..., 2:]) * sides - 1) / 2
    return np.concatenate((middle - half, middle + half), -1)


def _overlaps(box: Array, others: Array) -> Array:
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2]) + 1
    common = np.maximum(sides, 0).prod(1)
    area, rest = (box[2:] - box[:2] + 1).prod(), (others[:, 2:] - others[:, :2] + 1).prod(1)
    return common / (area + rest - common)


def _kept(boxes: Array, threshold: float, most: int) -> list[int]:
    alive = np.ones(len(boxes), bool)
    kept: list[int] = []
    for i in range(len(boxes)):
        if len(kept) == most:
            break
        if alive[i]:
            kept.append(i)
            rest = np.flatnonzero(alive[i + 1 :]) + i + 1
            alive[rest[_overlaps(boxes[i], boxes[rest]) > threshold]] = False
    return kept


def propose(p: ProposalParam, scores: Array, offsets: Array, info: Array) -> tuple[Array, Array]:
    """Boxes (post, 4) and scores (post,) of one image.

    Parameters
    ----------
    scores : (A, H, W), of the foreground
    offsets : (4·A, H, W)
    info : height, width and scale of the image
    """
    count, height, width = scores.shape
    shift = np.stack(np.meshgrid(np.arange(width), np.arange(height)), -1) * p.feature_stride
    boxes = np.concatenate((shift, shift), -1)[:, :, None] + anchors(p)
    moves = offsets.reshape(count, 4, height, width).transpose(2, 3, 0, 1)
    boxes = regressed(boxes, moves, p.iou_loss)
    boxes = np.clip(boxes, 0, np.array([info[1], info[0], info[1], info[0]]) - 1)
    score = scores.transpose(1, 2, 0).copy()
    score[int(info[0] / p.feature_stride) :] = -1
    score[:, int(info[1] / p.feature_stride) :] = -1
    least = p.rpn_min_size * info[2]
    small = ((boxes[..., 2:] - boxes[..., :2] + 1) < least).any(-1)
    grown = boxes + np.array([-1, -1, 1, 1]) * (least / 2)
    boxes = np.where(small[..., None], grown, boxes).reshape(-1, 4)
    score = np.where(small, -1, score).reshape(-1)
    order = np.argsort(-score, kind="stable")
    if p.rpn_pre_nms_top_n > 0:
        order = order[: p.rpn_pre_nms_top_n]
    boxes, score = boxes[order], score[order]
    kept = _kept(boxes, p.threshold, min(p.rpn_post_nms_top_n, len(order)))
    chosen = [kept[i % len(kept)] for i in range(p.rpn_post_nms_top_n)]
    return boxes[chosen], score[chosen]


class MultiProposal(Operator[ProposalParam]):
    """Boxes that may hold an object, from a region proposal network: (B·post, 5), rows (image, box).

    cls_prob (B, 2A, H, W) has the backgrounds' probabilities first, bbox_pred (B, 4A, H, W),
    im_info (B, 3) height, width and scale of each image; A = ratios · scales. Boxes are corners in
    pixels, best first; the surviving ones are repeated to fill up. With output_score their scores
    (B·post, 1) come second. No gradient.
    """

    name = "_contrib_MultiProposal"
    floating_only = True
    arguments = ("cls_prob", "bbox_pred", "im_info")
    results = ("output", "score")
    differentiable = False

    def num_visible_outputs(self, p: ProposalParam) -> int:
        return 2 if p.output_score else 1

    def infer_shape(self, p: ProposalParam, s: Shapes) -> None:
        prob = image_shape(s, "cls_prob")
        count = len(p.ratios) * len(p.scales)
        if prob is None:
            return
        if prob[1] >= 0 and (prob[1] != 2 * count or count == 0):
            raise s.error(f"cls_prob: expected {2 * count} channels for {count} anchors, got {prob}")
        if 0 in prob[2:]:
            raise s.error(f"cls_prob: maps of {prob} are empty")
        s.assign("bbox_pred", (prob[0], 4 * count, *prob[2:]))
        s.assign("im_info", (prob[0], 3))
        rows = prob[0] * p.rpn_post_nms_top_n if prob[0] >= 0 else -1
        s.assign("output", (rows, 5))
        s.assign("score", (rows, 1))

    def reference(self, p: ProposalParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """Image by image, in the type of cls_prob."""
        prob, offsets, info = (wide(x) for x in inputs)
        kind, rows = inputs[0].dtype, p.rpn_post_nms_top_n
        output = np.zeros((len(prob) * rows, 5), kind)
        score = np.zeros((len(prob) * rows, 1), kind)
        for i in range(len(prob)):
            own = slice(i * rows, (i + 1) * rows)
            half = prob.shape[1] // 2
            output[own, 0] = i
            output[own, 1:], score[own, 0] = propose(p, prob[i, half:], offsets[i], info[i])
        return output, score


class Proposal(MultiProposal):
    """MultiProposal of a single image: (post, 5)."""

    name = "_contrib_Proposal"
    floating_only = True

    def infer_shape(self, p: ProposalParam, s: Shapes) -> None:
        prob = image_shape(s, "cls_prob")
        if prob is not None and prob[0] not in (1, -1):
            raise s.error(f"cls_prob: expected one image, got {prob}; use MultiProposal")
        super().infer_shape(p, s)
