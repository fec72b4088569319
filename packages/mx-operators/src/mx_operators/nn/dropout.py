# SPDX-License-Identifier: Apache-2.0
"""Dropout.

Source: Srivastava et al., Dropout, JMLR 15, 2014.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from mx_core.operator import (
    Arrays,
    GradientBuilder,
    Gradients,
    Operator,
    Params,
    ReferenceContext,
    Shape,
    Shapes,
    opt,
)


class DropoutParam(Params):
    """Probability, when, and which axes share a decision."""

    p: float = opt(0.5, "probability of dropping an element", lower=0.0, upper=1.0)
    mode: str = opt("training", "when elements are dropped", choices=("always", "training"))
    axes: Shape = opt((), "axes along which one decision holds")
    cudnn_off: bool | None = opt(False, "accepted for compatibility")


class Dropout(Operator[DropoutParam]):
    """Zeroes elements with probability p and scales the rest by 1/(1 − p).

    The scaled mask is a hidden output; backward multiplies by it. Outside training (unless mode
    is `always`) the mask is 1. An element is kept when its uniform number is at least p.
    """

    name = "Dropout"
    results = ("output", "mask")
    hidden = ("mask",)
    is_random = True
    needs_train_flag = True

    def mask_shape(self, p: DropoutParam, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Extent 1 on the axes that share a decision."""
        shared = {a % len(shape) for a in p.axes} if shape else set()
        return tuple(1 if a in shared else e for a, e in enumerate(shape))

    def infer_shape(self, p: DropoutParam, s: Shapes) -> None:
        """As data; the mask is smaller when axes share."""
        s.unify(["data", "output"])
        data = s.get("data")
        if data is None:
            return
        if any(not -len(data) <= a < len(data) for a in p.axes):
            raise s.error(f"axes {p.axes} do not exist in data {data}")
        s.assign("mask", self.mask_shape(p, data))

    def random_blocks(self, p: DropoutParam, output_shapes: Sequence[tuple[int, ...]]) -> int:
        """Four decisions a block; none where every element is kept."""
        return (prod(output_shapes[1]) + 3) // 4 if p.p else 0

    def gradient(self, p: DropoutParam, g: GradientBuilder) -> Gradients:
        """out_grad · mask."""
        name = "broadcast_mul" if p.axes else "elemwise_mul"
        return g.op(name, (g.out_grad(), g.output("mask")))

    def reference(self, p: DropoutParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """A Philox uniform per decision."""
        from mx_core import philox

        x = inputs[0]
        shape = self.mask_shape(p, x.shape)
        if p.p == 0 or not (ctx.is_train or p.mode == "always"):
            return x.copy(), np.ones(shape, x.dtype)
        u = philox.uniform(ctx.random_key, ctx.random_offset, prod(shape), np.float32).reshape(shape)
        scale = 1 / (1 - p.p) if p.p < 1 else 0.0
        mask = np.where(u >= p.p, scale, 0).astype(x.dtype)
        return x * mask, mask
