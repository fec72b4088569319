# SPDX-License-Identifier: Apache-2.0
"""Regression outputs: an identity (or sigmoid) whose gradient is that of a loss with a label."""

from __future__ import annotations

import numpy as np

from mx_core.operator import Array, Arrays, Operator, Params, ReferenceContext, Shapes, opt
from mx_operators.nn.base import wide


class RegressionParam(Params):
    """Scale."""

    grad_scale: float = opt(1.0, "factor of the gradient", runtime=True)


class _Regression(Operator[RegressionParam]):
    arguments = ("data", "label")
    without_gradient = ("label",)
    inplace_pairs = ((0, 0),)
    is_loss = True

    def infer_shape(self, p: RegressionParam, s: Shapes) -> None:
        """Label as data; (N,) is accepted for (N, 1), and is inferred for (N, 1) if the label's shape is unknown."""
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

    def reference(self, p: RegressionParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        return (inputs[0].copy(),)

    def difference(self, y: Array, label: Array) -> Array:
        """The loss's derivative."""
        return y - label

    def backward(self, p: RegressionParam, label: Array, output: Array) -> Array:
        """Scaled by grad_scale over the outputs of one example."""
        per_example = max(output.size // output.shape[0], 1) if output.ndim and output.shape[0] else 1
        return self.difference(output, label.reshape(output.shape)) * (p.grad_scale / per_example)


class LinearRegressionOutput(_Regression):
    """data; the gradient is that of ½(data − label)², averaged over an example's outputs."""

    name = "LinearRegressionOutput"
    floating_only = True


class LogisticRegressionOutput(_Regression):
    """sigmoid(data); the gradient is that of the binary cross-entropy."""

    name = "LogisticRegressionOutput"
    floating_only = True

    def reference(self, p: RegressionParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        with np.errstate(over="ignore"):
            return ((1 / (1 + np.exp(-wide(inputs[0])))).astype(inputs[0].dtype),)


class MAERegressionOutput(_Regression):
    """data; the gradient is that of |data − label|."""

    name = "MAERegressionOutput"
    floating_only = True

    def difference(self, y: Array, label: Array) -> Array:
        return np.sign(y - label)


class SVMOutputParam(Params):
    """Margin, weight, and which hinge."""

    margin: float = opt(1.0, "margin of the hinge", runtime=True)
    regularization_coefficient: float = opt(1.0, "factor of the gradient", runtime=True)
    use_linear: bool = opt(False, "linear hinge (L1) instead of squared (L2)")


class SVMOutput(Operator[SVMOutputParam]):
    """data (…, C); the gradient is that of a one-against-all hinge loss with label (…)."""

    name = "SVMOutput"
    floating_only = True
    arguments = ("data", "label")
    without_gradient = ("label",)
    is_loss = True

    def infer_shape(self, p: SVMOutputParam, s: Shapes) -> None:
        s.unify(["data", "output"])
        data = s.get("data")
        if data is not None:
            if len(data) < 2:
                raise s.error(f"data: expected rows of scores, 2 or more dimensions, got {data}")
            s.assign("label", data[:-1])

    def reference(self, p: SVMOutputParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        return (inputs[0].copy(),)

    def backward(self, p: SVMOutputParam, label: Array, output: Array) -> Array:
        """+1 for the label's class, −1 for the others, where the margin is violated."""
        own = np.arange(output.shape[-1]) == label.astype(np.int64)[..., None]
        side = np.where(own, 1, -1).astype(output.dtype)
        violated = np.maximum(p.margin - side * output, 0)
        slope = (violated > 0) if p.use_linear else 2 * violated
        return -side * slope * p.regularization_coefficient
