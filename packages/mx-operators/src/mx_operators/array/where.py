# SPDX-License-Identifier: Apache-2.0
"""Elements of one array or another: where."""

from __future__ import annotations

import numpy as np

from mx_core.operator import (
    Arrays,
    GradientBuilder,
    Gradients,
    NoParams,
    Operator,
    ReferenceContext,
    Shapes,
)


class Where(Operator):
    """x where condition is non-zero, else y; condition of the same shape, or (N,) for rows."""

    name = "where"
    arguments = ("condition", "x", "y")
    free_types = {"condition": "x"}

    def infer_shape(self, p: NoParams, s: Shapes) -> None:
        s.unify(["x", "y", "output"])
        condition, x = s.get("condition"), s.get("x")
        if x is None:
            s.assign("output", condition if condition is not None and len(condition) > 1 else None)
        elif condition is not None:  # of an unknown number of axes it may be one per row
            s.assign("condition", x if len(condition) == len(x) else x[:1])

    def gradient(self, p: NoParams, g: GradientBuilder) -> Gradients:
        zero = g.op("zeros_like", (g.out_grad(),))[0]
        condition = g.input("condition")
        return {
            "x": g.op("where", (condition, g.out_grad(), zero))[0],
            "y": g.op("where", (condition, zero, g.out_grad()))[0],
        }

    def reference(self, p: NoParams, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        condition, x, y = inputs
        if condition.ndim != x.ndim:
            condition = condition.reshape(-1, *(1,) * (x.ndim - 1))
        return (np.where(condition != 0, x, y),)
