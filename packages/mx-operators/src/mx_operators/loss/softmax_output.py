# SPDX-License-Identifier: Apache-2.0
"""SoftmaxOutput: softmax whose gradient is that of the cross-entropy with a label."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from mx_core.operator import OperatorProperty, opt, param
from mx_core.operator.property import ReferenceContext
from mx_operators.nn.base import wide
from mx_operators.nn.softmax import softmax


@param
class SoftmaxOutputParam:
    """Axis, what is ignored, how the gradient is scaled."""

    grad_scale: float = opt(1.0, "factor of the gradient", runtime=True)
    ignore_label: float = opt(
        -1.0,
        "label that is not valid, and without gradient with use_ignore; both are truncated",
        runtime=True,
    )
    multi_output: bool = opt(False, "classes on axis 1, one label per position")
    use_ignore: bool = opt(False, "ignore ignore_label")
    preserve_shape: bool = opt(False, "classes on the last axis, one label per position")
    normalization: str = opt(
        "null", "the gradient is divided by 1, the batch size, or the number of valid labels",
        choices=("batch", "null", "valid"),
    )  # fmt: skip
    out_grad: bool = opt(False, "multiply by the out-gradient")
    smooth_alpha: float = opt(0.0, "label smoothing; not with multi_output", lower=0.0, upper=1.0)


def as_classes(x: Any, p: Any) -> Any:
    """data as (rows, classes, positions)."""
    if p.multi_output:
        return x.reshape(x.shape[0], x.shape[1], prod(x.shape[2:]))
    if p.preserve_shape:
        return x.reshape(prod(x.shape[:-1]), x.shape[-1], 1)
    return x.reshape(x.shape[0], prod(x.shape[1:]), 1)


class SoftmaxOutput(OperatorProperty):
    """softmax(data); the gradient is (softmax − one_hot(label)) · grad_scale.

    data (N, C) with label (N,); multi_output: (N, C, …) with (N, …) or with one axis for all
    positions, which is the label that nothing is told of; preserve_shape: (…, C) with (…). A label
    of the shape of data is taken as a distribution. The head gradient is not read unless out_grad.
    """

    name = "SoftmaxOutput"
    aliases = ("Softmax",)
    Param = SoftmaxOutputParam
    arguments = ("data", "label")
    is_loss = True

    def infer_shape(self, p: Any, s: Any) -> None:
        """Label from data, unless it is given as a distribution."""
        s.unify(["data", "output"])
        data = s.get("data")
        if data is None:
            return
        if len(data) < 2:
            raise s.error(f"data: expected at least 2 dimensions, got {data}")
        label = s.get("label")
        if label is not None and len(label) == len(data) and -1 not in label:
            if label == data:
                return
            if p.multi_output and label[1] == 1:
                s.assign("label", (data[0], 1, *data[2:]))
                return
        expected = (data[0], *data[2:]) if p.multi_output else data[:-1] if p.preserve_shape else data[:1]
        if p.multi_output and (label is None or len(label) == 2):
            expected = (data[0], -1 if -1 in data[2:] else prod(data[2:]))
        s.assign("label", expected)

    def infer_type(self, p: Any, t: Any) -> None:
        """Output as data; labels as data unless they have a type."""
        t.unify(["data", "output"])
        if t.get("label") is None:
            t.assign("label", t.get("data"))

    def inplace(self, p: Any) -> tuple[tuple[int, int], ...]:
        """Row by row."""
        return ((0, 0),)

    def gradient(self, p: Any, g: Any) -> Any:
        """Needs label and output; the head gradient only with out_grad."""
        kept = [g.input(1), g.output(0)] + ([g.out_grad()] if p.out_grad else [])
        return (g.op("_backward_SoftmaxOutput", kept, params=p)[0], None)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardSoftmaxOutput(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """softmax over the classes."""
        x = wide(inputs[0])
        return (softmax(as_classes(x, p), 1).reshape(x.shape).astype(inputs[0].dtype),)


class BackwardSoftmaxOutput(OperatorProperty):
    """Gradient of the cross-entropy behind SoftmaxOutput."""

    name = "_backward_SoftmaxOutput"
    Param = SoftmaxOutputParam
    arguments = ("label", "output", "out_grad")
    results = ("data_grad",)

    def inputs(self, p: Any) -> tuple[str, ...]:
        """out_grad with the parameter of that name."""
        return self.arguments if p.out_grad else self.arguments[:2]

    def infer_shape(self, p: Any, s: Any) -> None:
        """As the output."""
        s.unify(["output", "data_grad"])

    def infer_type(self, p: Any, t: Any) -> None:
        """As the output."""
        t.unify(["output", "data_grad"])

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Probabilities minus labels, scaled."""
        label, y = inputs[0], wide(inputs[1])
        prob = as_classes(y, p)
        rows, classes, positions = prob.shape
        if label.shape == y.shape:
            grad = (prob - label.reshape(prob.shape)) * p.grad_scale
            return (grad.reshape(y.shape).astype(inputs[1].dtype),)
        index = label.reshape(rows, positions).astype(np.int64)
        smooth = 0.0 if p.multi_output else p.smooth_alpha
        target = (
            np.full(prob.shape, smooth / max(classes - 1, 1), prob.dtype) if smooth else np.zeros_like(prob)
        )
        inside = np.clip(index, 0, classes - 1)[:, None, :]
        hit = 1 - smooth
        np.put_along_axis(target, inside, np.where((index >= 0) & (index < classes), hit, 0)[:, None, :], 1)
        grad = prob - target
        valid = np.trunc(label.reshape(rows, positions)) != np.trunc(p.ignore_label)
        if p.use_ignore:
            grad = grad * valid[:, None, :]
        divisor = {"null": 1, "batch": rows, "valid": max(int(valid.sum()), 1)}[p.normalization]
        if p.multi_output and p.normalization != "valid":
            divisor *= positions
        grad = grad * (p.grad_scale / max(divisor, 1))  # 0 where there is nothing
        if p.out_grad:
            grad = grad * as_classes(wide(inputs[2]), p)
        return (grad.reshape(y.shape).astype(inputs[1].dtype),)


OPERATORS: tuple[type[OperatorProperty], ...] = (SoftmaxOutput,)
