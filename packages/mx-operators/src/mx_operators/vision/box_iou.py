# SPDX-License-Identifier: Apache-2.0
"""Overlap of boxes, and matching by it."""

from __future__ import annotations

import numpy as np

from mx_core.operator import Array, Arrays, Operator, Params, ReferenceContext, Shapes, opt, required
from mx_operators.nn.base import wide
from mx_operators.vision.boxes import iou, to_corner


class BoxIouParam(Params):
    """Form of the boxes."""

    format: str = opt(
        "corner", "corner: (x₀, y₀, x₁, y₁); center: (x, y, width, height)", choices=("center", "corner")
    )


class BoxIou(Operator[BoxIouParam]):
    """Intersection over union of every box of lhs (…, 4) with every one of rhs (…, 4); no gradient.

    The result has the shape lhs.shape[:-1] + rhs.shape[:-1].
    """

    name = "_contrib_box_iou"
    floating_only = True
    arguments = ("lhs", "rhs")
    differentiable = False
    custom_gradient = True

    def infer_shape(self, p: BoxIouParam, s: Shapes) -> None:
        lhs, rhs = s.get("lhs"), s.get("rhs")
        for name, shape in (("lhs", lhs), ("rhs", rhs)):
            if shape is not None and (not shape or shape[-1] not in (4, -1)):
                raise s.error(f"{name}: expected (…, 4), got {shape}")
        if lhs is not None and rhs is not None:
            s.assign("output", (*lhs[:-1], *rhs[:-1]))

    def reference(self, p: BoxIouParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        lhs, rhs = (wide(x) for x in inputs)
        if p.format == "center":
            lhs, rhs = to_corner(lhs), to_corner(rhs)
        return (iou(lhs, rhs).astype(inputs[0].dtype),)


class BipartiteMatchingParam(Params):
    """Order, limit, number."""

    is_ascend: bool = opt(False, "small scores are good ones")
    threshold: float = required("worse scores match nothing")
    topk: int = opt(-1, "no match after that many and one more; −1: no limit")


class BipartiteMatching(Operator[BipartiteMatchingParam]):
    """Greedy one-to-one matching of rows and columns of scores data (…, R, C), best pair first.

    The first output (…, R) has the column matched to each row, the second (…, C) the row matched
    to each column; −1 is none. No gradient.
    """

    name = "_contrib_bipartite_matching"
    floating_only = True
    results = ("output0", "output1")
    differentiable = False

    def infer_shape(self, p: BipartiteMatchingParam, s: Shapes) -> None:
        """A value per row, and per column."""
        data = s.get("data")
        if data is None:
            return
        if len(data) < 2:
            raise s.error(f"data: expected at least 2 dimensions, got {data}")
        s.assign("output0", data[:-1])
        s.assign("output1", (*data[:-2], data[-1]))

    def reference(self, p: BipartiteMatchingParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """Pairs in the order of their scores."""
        data = wide(inputs[0])
        rows, columns = data.shape[-2:]
        flat = data.reshape(-1, rows, columns) if data.size else data.reshape(0, rows, columns)
        by_row = np.full((*data.shape[:-2], rows), -1, inputs[0].dtype)
        by_column = np.full((*data.shape[:-2], columns), -1, inputs[0].dtype)
        of_rows, of_columns = by_row.reshape(-1, rows or 1), by_column.reshape(-1, columns or 1)
        for scores, row_match, column_match in zip(flat, of_rows, of_columns, strict=False):
            _match(scores, p, row_match, column_match)
        return by_row, by_column


def _match(scores: Array, p: BipartiteMatchingParam, row_match: Array, column_match: Array) -> None:
    order = np.argsort(scores if p.is_ascend else -scores, axis=None, kind="stable")
    found = 0
    for flat in order.tolist():
        row, column = divmod(flat, scores.shape[1])
        if row_match[row] != -1 or column_match[column] != -1:
            continue
        good = scores[row, column] < p.threshold if p.is_ascend else scores[row, column] > p.threshold
        if not good:
            return
        row_match[row], column_match[column] = column, row
        found += 1
        if 0 < p.topk < found or found == min(scores.shape):
            return
