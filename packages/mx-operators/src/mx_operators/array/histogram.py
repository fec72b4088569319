# SPDX-License-Identifier: Apache-2.0
"""Counts of values in intervals."""

from __future__ import annotations

import numpy as np

from mx_core.errors import ArgumentError
from mx_core.operator import Arrays, Operator, Params, ReferenceContext, Shapes, opt
from mx_operators.nn.base import wide


class HistogramParam(Params):
    """Equal intervals, or none: their edges are an input then."""

    bin_cnt: int | None = opt(
        None, "number of intervals of one width; None: bins has the edges", lower=1, upper=2**31 - 1
    )
    range: tuple[float, ...] | None = opt(None, "lower and upper end of equal intervals")


class Histogram(Operator[HistogramParam]):
    """How many values are in each interval, and the edges; the last interval has its upper end.

    Values outside and NaN are not counted.
    """

    name = "_histogram"
    arguments = ("data", "bins")
    results = ("output0", "output1")
    fixed_types = {"output0": "int64"}
    differentiable = False

    def inputs(self, p: HistogramParam) -> tuple[str, ...]:
        """bins only without bin_cnt."""
        return ("data",) if p.bin_cnt is not None else ("data", "bins")

    def infer_shape(self, p: HistogramParam, s: Shapes) -> None:
        """Counts, and one edge more."""
        if p.bin_cnt is not None:
            ends = p.range
            if ends is None or len(ends) != 2 or not (np.isfinite(ends).all() and ends[0] < ends[1]):
                raise s.error(f"range: expected two finite ends, the lower first, got {ends}")
            n = p.bin_cnt
        else:
            bins = s.get("bins")
            if bins is None:
                return
            if len(bins) != 1 or bins[0] in (0, 1):
                raise s.error(f"bins: expected one axis with at least 2 edges, got {bins}")
            n = bins[0] - 1 if bins[0] > 0 else -1
        s.assign("output0", (n,))
        s.assign("output1", (n + 1 if n >= 0 else -1,))

    def reference(self, p: HistogramParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        x = wide(inputs[0]).ravel()
        ends = p.range or (0.0, 0.0)
        edges = np.linspace(ends[0], ends[1], p.bin_cnt + 1) if p.bin_cnt is not None else wide(inputs[1])
        if not (edges[1:] >= edges[:-1]).all():
            raise ArgumentError(f"[{self.name}] bins: expected ascending edges, got {edges[:8].tolist()}")
        if x.dtype.kind == "b":
            x = x.view(np.uint8)
        counts = np.histogram(x[~np.isnan(x)] if x.dtype.kind == "f" else x, edges)[0]
        return counts.astype(np.int64), edges.astype(inputs[0].dtype)
