# SPDX-License-Identifier: Apache-2.0
"""Losses and the end of gradients: MakeLoss, make_loss, BlockGrad, softmax_cross_entropy."""

from __future__ import annotations

from math import prod

import numpy as np

from mx_core.errors import IndexOutOfBoundsError
from mx_core.expression import Traced
from mx_core.operator import (
    Array,
    Arrays,
    GradientBuilder,
    Gradients,
    NoParams,
    Operator,
    Params,
    ReferenceContext,
    Shapes,
    SimpleOp,
    opt,
)
from mx_operators.nn.base import wide
from mx_operators.nn.softmax import softmax


class MakeLossParam(Params):
    """Scale and normalisation."""

    grad_scale: float = opt(1.0, "factor of the gradient", runtime=True)
    valid_thresh: float = opt(0.0, "values above it are valid", runtime=True)
    normalization: str = opt(
        "null", "the gradient is divided by 1, the rows (extents of all axes but the last), or the valid values",
        choices=("batch", "null", "valid"),
    )  # fmt: skip


class MakeLoss(Operator[MakeLossParam]):
    """data; its gradient is grad_scale and does not depend on the head gradient."""

    name = "MakeLoss"
    inplace_pairs = ((0, 0),)
    is_loss = True

    def reference(self, p: MakeLossParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        return (inputs[0].copy(),)

    def backward(self, p: MakeLossParam, data: Array) -> Array:
        """A constant; data tell how many values are valid."""
        divisor = 1
        if p.normalization == "batch":
            divisor = max(prod(data.shape[:-1]), 1)
        elif p.normalization == "valid":
            divisor = max(int((data > p.valid_thresh).sum()), 1)
        return np.full_like(data, p.grad_scale / divisor)

    def backward_gradient(self, p: MakeLossParam, g: GradientBuilder) -> Gradients:
        """Zero, of a constant."""
        return None


class MakeLossSimple(Operator):
    """data; its gradient is 1 and does not depend on the head gradient."""

    name = "make_loss"
    results = ("loss",)
    inplace_pairs = ((0, 0),)
    is_loss = True

    def gradient(self, p: NoParams, g: GradientBuilder) -> Gradients:
        return g.op("ones_like", g.inputs)

    def reference(self, p: NoParams, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        return (inputs[0].copy(),)


class BlockGrad(SimpleOp):
    """data; no gradient passes."""

    name = "BlockGrad"
    aliases = ("stop_gradient",)
    differentiable = False
    custom_gradient = True

    def function(self, p: NoParams, data: Traced) -> Traced:
        return data


class SoftmaxCrossEntropy(Operator):
    """Σ −log softmax(data)[label]: data (N, C) and label (N,) give (1,)."""

    name = "softmax_cross_entropy"
    floating_only = ("data",)
    arguments = ("data", "label")
    without_gradient = ("label",)

    def infer_shape(self, p: NoParams, s: Shapes) -> None:
        data = s.get("data")
        if data is not None:
            if len(data) != 2:
                raise s.error(f"data: expected 2 dimensions, got {data}")
            s.assign("label", data[:1])
        s.assign("output", (1,))

    def reference(self, p: NoParams, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """Probability of the label, at least 1e-8."""
        prob = softmax(wide(inputs[0]), 1)
        label = np.asarray(inputs[1], np.float64)
        wrong = label[~((label > -1) & (label < prob.shape[1]))]
        if wrong.size:
            raise IndexOutOfBoundsError(
                f"[{self.name}] label: expected 0 to {prob.shape[1] - 1}, got {wrong[0]:g}"
            )
        picked = prob[np.arange(prob.shape[0]), label.astype(np.int64)]
        return (-np.log(np.maximum(picked, 1e-8)).sum(keepdims=True).astype(inputs[0].dtype),)

    def backward(self, p: NoParams, out_grad: Array, data: Array, label: Array) -> Array:
        """Probabilities minus one-hot labels; a label outside is no class."""
        prob = softmax(data, 1)
        return (prob - (label.astype(np.int64)[:, None] == np.arange(prob.shape[1]))) * out_grad[0]
