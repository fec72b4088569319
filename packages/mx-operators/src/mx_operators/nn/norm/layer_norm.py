# SPDX-License-Identifier: Apache-2.0
"""LayerNorm."""

from __future__ import annotations

import numpy as np

from mx_core.operator import Array, Arrays, Operator, Params, ReferenceContext, Shapes, Types, opt
from mx_operators.nn.base import along, infer_statistics, positive_axis, wide


class LayerNormParam(Params):
    """Axis and constant."""

    axis: int = opt(-1, "the axis that is normalised")
    eps: float = opt(1e-5, "added to the variance", lower=0.0)
    output_mean_var: bool = opt(False, "show mean and standard deviation as outputs")


class LayerNorm(Operator[LayerNormParam]):
    """(x − mean) / √(var + eps) · gamma + beta along one axis.

    mean and std = √(var + eps) have extent 1 on that axis and are hidden unless output_mean_var; of
    16-bit data they are float32.

    Source: Ba, Kiros and Hinton, Layer Normalization, 2016.
    """

    name = "LayerNorm"
    floating_only = True
    arguments = ("data", "gamma", "beta")
    results = ("output", "mean", "std")

    def num_visible_outputs(self, p: LayerNormParam) -> int:
        """One, or three with output_mean_var."""
        return 3 if p.output_mean_var else 1

    def infer_shape(self, p: LayerNormParam, s: Shapes) -> None:
        """gamma and beta along the axis; statistics over the others."""
        s.unify(["data", "output"])
        data = s.get("data")
        if data is None:
            return
        axis = positive_axis(p.axis, len(data))
        if not 0 <= axis < len(data):
            raise s.error(f"axis: expected −{len(data)} to {len(data) - 1}, got {p.axis}")
        for name in ("gamma", "beta"):
            s.assign(name, (data[axis],))
        for name in ("mean", "std"):
            s.assign(name, (*data[:axis], 1, *data[axis + 1 :]))

    def infer_type(self, p: LayerNormParam, t: Types) -> None:
        """One type, but for statistics: float32 for 16-bit data."""
        infer_statistics(t)

    def reference(self, p: LayerNormParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """Statistics, then a scaled shift."""
        x, gamma, beta = (wide(a) for a in inputs)
        axis = positive_axis(p.axis, x.ndim)
        mean = x.mean(axis, keepdims=True)
        std = np.sqrt(x.var(axis, keepdims=True) + p.eps)
        y = (x - mean) / std * along(gamma, axis, x.ndim) + along(beta, axis, x.ndim)
        return y.astype(inputs[0].dtype), mean.astype(x.dtype), std.astype(x.dtype)

    def backward(
        self, p: LayerNormParam, out_grad: Array, data: Array, gamma: Array, mean: Array, std: Array
    ) -> Arrays:
        """The chain rule through mean and standard deviation."""
        axis = positive_axis(p.axis, data.ndim)
        rest = tuple(a for a in range(data.ndim) if a != axis)
        normal = (data - mean) / std
        scaled = out_grad * along(gamma, axis, data.ndim)
        dx = scaled - scaled.mean(axis, keepdims=True)
        dx = (dx - normal * (scaled * normal).mean(axis, keepdims=True)) / std
        return dx, (out_grad * normal).sum(rest), out_grad.sum(rest)
