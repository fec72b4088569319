# SPDX-License-Identifier: Apache-2.0
"""Non-maximum suppression of scored boxes."""

from __future__ import annotations

import numpy as np

from mx_core.operator import Array, Arrays, Operator, Params, ReferenceContext, ShapeOnly, Shapes, opt
from mx_operators.nn.base import wide
from mx_operators.vision.boxes import suppress, to_center, to_corner

_FORMS = ("center", "corner")


class BoxNmsParam(Params):
    """Thresholds, and where in a row things lie."""

    overlap_thresh: float = opt(0.5, "boxes that overlap a better one by more are suppressed")
    valid_thresh: float = opt(0.0, "boxes whose score is not above are dropped")
    topk: int = opt(-1, "only the best ones are considered; −1: all, 0: data stay as they are")
    coord_start: int = opt(2, "index of the first of the 4 coordinates", lower=0)
    score_index: int = opt(1, "index of the score", lower=0)
    id_index: int = opt(-1, "index of the class; −1: there is none")
    background_id: int = opt(-1, "boxes of this class are dropped")
    force_suppress: bool = opt(False, "boxes of different classes compete, too")
    in_format: str = opt("corner", "form of the boxes given", choices=_FORMS)
    out_format: str = opt("corner", "form of the boxes returned", choices=_FORMS)


class BoxNms(Operator[BoxNmsParam]):
    """Surviving rows of data (…, n, k), best first, then rows of −1; see overlap_thresh.

    A row holds a class, a score and a box at the indices given, and any other numbers. The gradient
    goes to the rows that survive.
    """

    name = "_contrib_box_nms"
    floating_only = ("data",)
    aliases = ("_contrib_box_non_maximum_suppression",)
    results = ("output0", "source")
    hidden = ("source",)
    fixed_types = {"source": "int64"}
    custom_gradient = True  # of rows that change their format it is not the derivative

    def infer_shape(self, p: BoxNmsParam, s: Shapes) -> None:
        s.unify(["data", "output0"])
        data = s.get("data")
        if data is None:
            return
        if len(data) < 2:
            raise s.error(f"data: expected at least 2 dimensions, got {data}")
        width = data[-1]
        for name, end in (
            ("coord_start", p.coord_start + 4), ("score_index", p.score_index + 1), ("id_index", p.id_index + 1)
        ):  # fmt: skip
            if 0 <= width < end:
                raise s.error(f"{name}: rows of {width} elements are too short for {getattr(p, name)}")
        s.assign("source", data[:-1])

    def reference(self, p: BoxNmsParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        data = inputs[0]
        rows, width = data.shape[-2:]
        if p.topk == 0:
            return data.copy(), np.broadcast_to(np.arange(rows), data.shape[:-1]).copy()
        flat = data.reshape(int(np.prod(data.shape[:-2])), rows, width)
        output = np.full(flat.shape, -1, data.dtype)
        source = np.full(flat.shape[:2], -1, np.int64)
        for one, best, origin in zip(flat, output, source, strict=True):
            kept = _survivors(wide(one), p)
            best[: kept.size], origin[: kept.size] = one[kept], kept
            if p.in_format != p.out_format and kept.size:
                turn = to_corner if p.out_format == "corner" else to_center
                box = best[: kept.size, p.coord_start : p.coord_start + 4]
                box[:] = turn(wide(box))
        return output.reshape(data.shape), source.reshape(data.shape[:-1])

    def backward(self, p: BoxNmsParam, out_grad: Array, source: Array, data: ShapeOnly) -> Array:
        """Rows back to where they came from."""
        rows, width = out_grad.shape[-2:]
        grad = np.zeros(out_grad.shape, out_grad.dtype)
        batches = int(np.prod(out_grad.shape[:-2]))
        flat, places = out_grad.reshape(batches, rows, width), source.reshape(batches, rows)
        target = grad.reshape(batches, rows, width)
        batch, row = np.nonzero(places >= 0)
        target[batch, places[batch, row]] = flat[batch, row]
        return grad


def _survivors(rows: Array, p: BoxNmsParam) -> Array:
    """Indices of the rows that survive, best first."""
    score = rows[:, p.score_index]
    valid = score > p.valid_thresh
    classes = rows[:, p.id_index] if p.id_index >= 0 else None
    if classes is not None:
        valid &= classes != p.background_id
    order = np.flatnonzero(valid)
    order = order[np.argsort(-score[order], kind="stable")]
    if p.topk > 0:
        order = order[: p.topk]
    boxes = rows[order, p.coord_start : p.coord_start + 4]
    if p.in_format == "center":
        boxes = to_corner(boxes)
    competing = None if classes is None or p.force_suppress else classes[order]
    return order[suppress(boxes, competing, p.overlap_thresh)]
