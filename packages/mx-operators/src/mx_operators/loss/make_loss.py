# SPDX-License-Identifier: Apache-2.0
"""Where gradients start and stop: MakeLoss, make_loss, BlockGrad, softmax_cross_entropy."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from mx_core.errors import IndexOutOfBoundsError
from mx_core.operator import OperatorProperty, SimpleOp, opt, param
from mx_core.operator.property import ReferenceContext
from mx_operators.nn.base import wide
from mx_operators.nn.softmax import softmax


@param
class MakeLossParam:
    """Scale and normalisation."""

    grad_scale: float = opt(1.0, "factor of the gradient", runtime=True)
    valid_thresh: float = opt(0.0, "values above it are valid", runtime=True)
    normalization: str = opt(
        "null", "the gradient is divided by 1, the rows (extents of all axes but the last), or the valid values",
        choices=("batch", "null", "valid"),
    )  # fmt: skip


class MakeLoss(OperatorProperty):
    """data; its gradient is grad_scale, whatever the head gradient."""

    name = "MakeLoss"
    Param = MakeLossParam
    is_loss = True

    def inplace(self, p: Any) -> tuple[tuple[int, int], ...]:
        """The identity."""
        return ((0, 0),)

    def gradient(self, p: Any, g: Any) -> Any:
        """Needs data only to count valid values."""
        return g.op("_backward_MakeLoss", (g.input(0),), params=p)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardMakeLoss(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """The identity."""
        return (inputs[0].copy(),)


class BackwardMakeLoss(OperatorProperty):
    """Gradient of MakeLoss."""

    name = "_backward_MakeLoss"
    Param = MakeLossParam
    results = ("data_grad",)

    def gradient(self, p: Any, g: Any) -> Any:
        """Zero, of a constant."""
        return None

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """A constant."""
        x = inputs[0]
        divisor = 1
        if p.normalization == "batch":
            divisor = max(prod(x.shape[:-1]), 1)
        elif p.normalization == "valid":
            divisor = max(int((x > p.valid_thresh).sum()), 1)
        return (np.full_like(x, p.grad_scale / divisor),)


class MakeLossSimple(OperatorProperty):
    """data; its gradient is 1, whatever the head gradient."""

    name = "make_loss"
    results = ("loss",)
    is_loss = True

    def inplace(self, p: Any) -> tuple[tuple[int, int], ...]:
        """The identity."""
        return ((0, 0),)

    def gradient(self, p: Any, g: Any) -> Any:
        """Ones."""
        return g.op("ones_like", (g.input(0),))

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """The identity."""
        return (inputs[0].copy(),)


class BlockGrad(SimpleOp):
    """data; no gradient passes."""

    name = "BlockGrad"
    aliases = ("stop_gradient",)
    differentiable = False

    def function(self, p: Any, data: Any) -> Any:
        """The identity."""
        return data


class SoftmaxCrossEntropy(OperatorProperty):
    """Σ −log softmax(data)[label]: data (N, C) and label (N,) give (1,)."""

    name = "softmax_cross_entropy"
    arguments = ("data", "label")

    def infer_shape(self, p: Any, s: Any) -> None:
        """One label per row."""
        data = s.get("data")
        if data is not None:
            if len(data) != 2:
                raise s.error(f"data: expected 2 dimensions, got {data}")
            s.assign("label", data[:1])
        s.assign("output", (1,))

    def gradient(self, p: Any, g: Any) -> Any:
        """Needs everything."""
        kept = (g.out_grad(), g.input(0), g.input(1))
        return (g.op("_backward_softmax_cross_entropy", kept)[0], None)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardSoftmaxCrossEntropy(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
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


class BackwardSoftmaxCrossEntropy(OperatorProperty):
    """Gradient of softmax_cross_entropy."""

    name = "_backward_softmax_cross_entropy"
    arguments = ("out_grad", "data", "label")
    results = ("data_grad",)

    def infer_shape(self, p: Any, s: Any) -> None:
        """As data."""
        s.unify(["data", "data_grad"])

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Probabilities minus one-hot labels; a label outside is no class."""
        prob = softmax(wide(inputs[1]), 1)
        prob = prob - (inputs[2].astype(np.int64)[:, None] == np.arange(prob.shape[1]))
        return ((prob * inputs[0][0]).astype(inputs[1].dtype),)


OPERATORS: tuple[type[OperatorProperty], ...] = (
    MakeLoss, MakeLossSimple, BlockGrad, SoftmaxCrossEntropy,
)  # fmt: skip
