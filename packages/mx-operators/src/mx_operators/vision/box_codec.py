# SPDX-License-Identifier: Apache-2.0
"""Boxes relative to anchors.

Source: Girshick et al., Rich Feature Hierarchies for Accurate Object Detection, CVPR 2014, appendix C.
"""

from __future__ import annotations

import numpy as np

from mx_core.errors import IndexOutOfBoundsError
from mx_core.operator import Array, Arrays, NoParams, Operator, Params, ReferenceContext, Shapes, opt
from mx_operators.nn.base import wide
from mx_operators.vision.boxes import to_center


def encoded(boxes: Array, anchors: Array) -> Array:
    """((x − x_a)/w_a, (y − y_a)/h_a, log w/w_a, log h/h_a) of boxes in corner form."""
    box, anchor = to_center(boxes), to_center(anchors)
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = (box[..., :2] - anchor[..., :2]) / anchor[..., 2:]
        return np.concatenate((shift, np.log(box[..., 2:] / anchor[..., 2:])), -1)


def decoded(offsets: Array, anchors: Array, limit: float | None = None) -> Array:
    """Corner form of boxes that `offsets` describe, relative to anchors in centre form."""
    middle = offsets[..., :2] * anchors[..., 2:] + anchors[..., :2]
    growth = offsets[..., 2:] if limit is None else np.minimum(offsets[..., 2:], limit)
    half = np.exp(growth) * anchors[..., 2:] / 2
    return np.concatenate((middle - half, middle + half), -1)


class BoxEncode(Operator):
    """Targets for boxes: refs[matches] relative to anchors, minus means, over stds; and a mask.

    samples (B, N) above ½ are positive, matches (B, N) index refs (B, M, 4), anchors (B, N, 4);
    means and stds (4,). Both outputs (B, N, 4) are 0 where not positive. No gradient.
    """

    name = "_contrib_box_encode"
    floating_only = True
    arguments = ("samples", "matches", "anchors", "refs", "means", "stds")
    results = ("output0", "output1")
    differentiable = False
    custom_gradient = True

    def infer_shape(self, p: NoParams, s: Shapes) -> None:
        for name in ("anchors", "refs"):
            shape = s.get(name)
            if shape is not None and (len(shape) != 3 or shape[2] not in (4, -1)):
                raise s.error(f"{name}: expected (B, N, 4), got {shape}")
        anchors = s.get("anchors")
        if anchors is not None:
            s.assign("samples", anchors[:2])
            s.assign("refs", (anchors[0], -1, 4))
        s.unify(["samples", "matches"])
        s.unify(["anchors", "output0", "output1"])
        for name in ("means", "stds"):
            s.assign(name, (4,))

    def reference(self, p: NoParams, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        samples, matches, anchors, refs, means, stds = (wide(x) for x in inputs)
        positive = samples > 0.5
        index = np.where(positive, matches, 0).astype(np.int64)
        wrong = matches[positive & ((matches < 0) | (matches >= refs.shape[1]))]
        if wrong.size:
            raise IndexOutOfBoundsError(
                f"[_contrib_box_encode] matches: expected 0 to {refs.shape[1] - 1}, got {wrong[0]:g}"
            )
        mask = np.broadcast_to(positive[..., None], anchors.shape)
        if refs.shape[1] == 0:
            return np.zeros_like(inputs[2]), mask.astype(inputs[2].dtype)
        matched = np.take_along_axis(refs, index[..., None], 1)
        targets = (encoded(matched, anchors) - means) / stds
        return np.where(mask, targets, 0).astype(inputs[2].dtype), mask.astype(inputs[2].dtype)


class BoxDecodeParam(Params):
    """Scales, limit, form."""

    std0: float = opt(1.0, "scale of x", runtime=True)
    std1: float = opt(1.0, "scale of y", runtime=True)
    std2: float = opt(1.0, "scale of the width", runtime=True)
    std3: float = opt(1.0, "scale of the height", runtime=True)
    clip: float = opt(-1.0, "limit of the logarithm of growth; not above 0: none", runtime=True)
    format: str = opt("center", "form of the anchors", choices=("center", "corner"))


class BoxDecode(Operator[BoxDecodeParam]):
    """Boxes in corner form from offsets data (B, N, 4) relative to anchors (1, N, 4); no gradient."""

    name = "_contrib_box_decode"
    floating_only = True
    arguments = ("data", "anchors")
    differentiable = False
    custom_gradient = True

    def infer_shape(self, p: BoxDecodeParam, s: Shapes) -> None:
        data = s.get("data")
        if data is not None:
            if len(data) != 3 or data[2] not in (4, -1):
                raise s.error(f"data: expected (B, N, 4), got {data}")
            s.assign("anchors", (1, data[1], 4))
        s.unify(["data", "output"])

    def reference(self, p: BoxDecodeParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        data, anchors = (wide(x) for x in inputs)
        scale = np.array([p.std0, p.std1, p.std2, p.std3], data.dtype)
        center = to_center(anchors) if p.format == "corner" else anchors
        limit = data.dtype.type(p.clip) if p.clip > 0 else None
        return (decoded(data * scale, center, limit).astype(inputs[0].dtype),)
