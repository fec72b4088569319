# SPDX-License-Identifier: Apache-2.0
"""Regression outputs: an identity (or sigmoid) whose gradient is that of a loss with a label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core.operator import OperatorProperty, opt, param
from mx_core.operator.property import ReferenceContext
from mx_operators.nn.base import wide


@param
class RegressionParam:
    """Scale."""

    grad_scale: float = opt(1.0, "factor of the gradient", runtime=True)


class _Regression(OperatorProperty):
    Param = RegressionParam
    arguments = ("data", "label")
    is_loss = True

    def infer_shape(self, p: Any, s: Any) -> None:
        """Label as data; (N,) goes with (N, 1), too, and is what (N, 1) has if nothing is told."""
        s.unify(["data", "output"])
        data, label = s.get("data"), s.get("label")
        if data is None:
            return
        if label is not None and {len(data), len(label)} == {1, 2} and max(data, label, key=len)[1] == 1:
            s.assign("label", data[:1] if len(label) == 1 else (data[0], 1))
            return
        if label is None and len(data) == 2:
            if data[1] < 0:
                return
            data = data[:1] if data[1] == 1 else data
        s.assign("label", data)

    def inplace(self, p: Any) -> tuple[tuple[int, int], ...]:
        """Elementwise."""
        return ((0, 0),)

    def gradient(self, p: Any, g: Any) -> Any:
        """Needs label and output; no head gradient."""
        return (g.op(f"_backward_{self.name}", (g.input(1), g.output(0)), params=p)[0], None)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """The identity."""
        return (inputs[0].copy(),)


class _BackwardRegression(OperatorProperty):
    Param = RegressionParam
    arguments = ("label", "output")
    results = ("data_grad",)

    def infer_shape(self, p: Any, s: Any) -> None:
        """As the output."""
        s.unify(["output", "data_grad"])

    def difference(self, y: Any, label: Any) -> Any:
        """The loss's derivative."""
        return y - label

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Scaled by grad_scale over the outputs of one example."""
        label, y = wide(inputs[0]), wide(inputs[1])
        per_example = max(y.size // y.shape[0], 1) if y.ndim and y.shape[0] else 1
        grad = self.difference(y, label.reshape(y.shape)) * (p.grad_scale / per_example)
        return (grad.astype(inputs[1].dtype),)


class BackwardLinear(_BackwardRegression):
    """Gradient of LinearRegressionOutput."""

    name = "_backward_LinearRegressionOutput"


class BackwardLogistic(_BackwardRegression):
    """Gradient of LogisticRegressionOutput."""

    name = "_backward_LogisticRegressionOutput"


class BackwardMAE(_BackwardRegression):
    """Gradient of MAERegressionOutput."""

    name = "_backward_MAERegressionOutput"

    def difference(self, y: Any, label: Any) -> Any:
        """The sign."""
        return np.sign(y - label)


class LinearRegressionOutput(_Regression):
    """data; the gradient is that of ½(data − label)², averaged over an example's outputs."""

    name = "LinearRegressionOutput"

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardLinear(),)


class LogisticRegressionOutput(_Regression):
    """sigmoid(data); the gradient is that of the binary cross-entropy."""

    name = "LogisticRegressionOutput"

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardLogistic(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """The sigmoid."""
        with np.errstate(over="ignore"):
            return ((1 / (1 + np.exp(-wide(inputs[0])))).astype(inputs[0].dtype),)


class MAERegressionOutput(_Regression):
    """data; the gradient is that of |data − label|."""

    name = "MAERegressionOutput"

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardMAE(),)


@param
class SVMOutputParam:
    """Margin, weight, and which hinge."""

    margin: float = opt(1.0, "margin of the hinge", runtime=True)
    regularization_coefficient: float = opt(1.0, "factor of the gradient", runtime=True)
    use_linear: bool = opt(False, "linear hinge (L1) instead of squared (L2)")


class SVMOutput(OperatorProperty):
    """data (…, C); the gradient is that of a one-against-all hinge loss with label (…)."""

    name = "SVMOutput"
    Param = SVMOutputParam
    arguments = ("data", "label")
    is_loss = True

    def infer_shape(self, p: Any, s: Any) -> None:
        """One label per row."""
        s.unify(["data", "output"])
        data = s.get("data")
        if data is not None:
            if len(data) < 2:
                raise s.error(f"data: expected rows of scores, 2 or more dimensions, got {data}")
            s.assign("label", data[:-1])

    def gradient(self, p: Any, g: Any) -> Any:
        """Needs label and output."""
        return (g.op("_backward_SVMOutput", (g.input(1), g.output(0)), params=p)[0], None)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardSVM(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """The identity."""
        return (inputs[0].copy(),)


class BackwardSVM(OperatorProperty):
    """Gradient of SVMOutput."""

    name = "_backward_SVMOutput"
    Param = SVMOutputParam
    arguments = ("label", "output")
    results = ("data_grad",)

    def infer_shape(self, p: Any, s: Any) -> None:
        """As the output."""
        s.unify(["output", "data_grad"])

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """+1 for the label's class, −1 for the others, where the margin is violated."""
        label, y = inputs[0].astype(np.int64), wide(inputs[1])
        side = np.where(np.arange(y.shape[-1]) == label[..., None], 1, -1).astype(y.dtype)
        violated = np.maximum(p.margin - side * y, 0)
        slope = (violated > 0) if p.use_linear else 2 * violated
        grad = -side * slope * p.regularization_coefficient
        return (grad.astype(inputs[1].dtype),)


OPERATORS: tuple[type[OperatorProperty], ...] = (
    LinearRegressionOutput, LogisticRegressionOutput, MAERegressionOutput, SVMOutput,
)  # fmt: skip
