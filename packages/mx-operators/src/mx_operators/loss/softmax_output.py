# SPDX-License-Identifier: Apache-2.0
"""SoftmaxOutput: softmax whose gradient is that of the cross-entropy with a label."""

from __future__ import annotations

from math import prod

import numpy as np

from mx_core.operator import Array, Arrays, Operator, Params, ReferenceContext, Shapes, opt
from mx_operators.nn.base import wide
from mx_operators.nn.softmax import softmax


class SoftmaxOutputParam(Params):
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


def as_classes(x: Array, p: SoftmaxOutputParam) -> Array:
    """data as (rows, classes, positions)."""
    if p.multi_output:
        return x.reshape(x.shape[0], x.shape[1], prod(x.shape[2:]))
    if p.preserve_shape:
        return x.reshape(prod(x.shape[:-1]), x.shape[-1], 1)
    return x.reshape(x.shape[0], prod(x.shape[1:]), 1)


class SoftmaxOutput(Operator[SoftmaxOutputParam]):
    """softmax(data); the gradient is (softmax − one_hot(label)) · grad_scale.

    data (N, C) with label (N,); multi_output: (N, C, …) with (N, …) or with one axis for all
    positions, which is inferred if the label's shape is unknown; preserve_shape: (…, C) with (…). A label
    of the shape of data is taken as a distribution. The head gradient is not read unless out_grad.
    """

    name = "SoftmaxOutput"
    floating_only = ("data",)
    aliases = ("Softmax",)
    arguments = ("data", "label")
    inplace_pairs = ((0, 0),)
    without_gradient = ("label",)
    free_types = {"label": "data"}
    is_loss = True

    def infer_shape(self, p: SoftmaxOutputParam, s: Shapes) -> None:
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

    def reference(self, p: SoftmaxOutputParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        x = wide(inputs[0])
        return (softmax(as_classes(x, p), 1).reshape(x.shape).astype(inputs[0].dtype),)

    def kept(self, p: SoftmaxOutputParam) -> tuple[str, ...]:
        """The head gradient with the parameter of its name."""
        return ("label", "output", "out_grad") if p.out_grad else ("label", "output")

    def backward(
        self, p: SoftmaxOutputParam, label: Array, output: Array, out_grad: Array | None = None
    ) -> Array:
        """Probabilities minus labels, scaled."""
        prob = as_classes(output, p)
        rows, classes, positions = prob.shape
        if label.shape == output.shape:
            return ((prob - label.reshape(prob.shape)) * p.grad_scale).reshape(output.shape)
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
        if out_grad is not None:
            grad = grad * as_classes(out_grad, p)
        return grad.reshape(output.shape)
