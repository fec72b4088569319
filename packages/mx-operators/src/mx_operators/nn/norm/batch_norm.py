# SPDX-License-Identifier: Apache-2.0
"""BatchNorm.

Source: Ioffe and Szegedy, Batch Normalization, ICML 2015.
"""

from __future__ import annotations

from typing import ClassVar, TypeVar

import numpy as np

from mx_core.operator import Array, Arrays, Operator, Params, ReferenceContext, Shapes, Types, opt
from mx_operators.nn.base import along, positive_axis, statistics_type, wide


class StatisticsParam(Params):
    """Constants, and which statistics are used."""

    eps: float = opt(1e-3, "added to the variance", lower=0.0)
    momentum: float = opt(0.9, "share of the old value in a moving average")
    fix_gamma: bool = opt(True, "gamma is 1 and gets no gradient")
    use_global_stats: bool = opt(False, "use the moving averages in training too")
    output_mean_var: bool = opt(False, "show the mean and 1/√(variance + eps) as outputs")

    @property
    def axis(self) -> int:
        """The channel axis."""
        return 1


class BatchNormParam(StatisticsParam):
    """The same, the axis, and what is accepted for compatibility."""

    axis: int = opt(1, "the channel axis")
    cudnn_off: bool = opt(False, "on a GPU: kernels of mx, also where cuDNN is installed")
    min_calib_range: float | None = opt(None, "accepted for compatibility")
    max_calib_range: float | None = opt(None, "accepted for compatibility")


#: the tensors that have one value per channel
VECTORS = ("gamma", "beta", "moving_mean", "moving_var", "mean", "var")


S = TypeVar("S", bound=StatisticsParam)


class Normalization(Operator[S]):
    """What BatchNorm and its relatives share."""

    arguments = ("data", "gamma", "beta")
    auxiliaries = ("moving_mean", "moving_var")
    input_attrs = {
        "moving_mean": {"__init__": '["zero", {}]'},
        "moving_var": {"__init__": '["one", {}]'},
    }
    results: ClassVar[tuple[str, ...]] = ("output", "mean", "var")
    needs_train_flag = True

    def shown_inverted(self, p: S) -> bool:
        """Whether the output `var` is 1/√(var + eps)."""
        return bool(p.output_mean_var)

    def num_visible_outputs(self, p: S) -> int:
        """One, or three with output_mean_var."""
        return 3 if p.output_mean_var else 1

    def infer_shape(self, p: S, s: Shapes) -> None:
        """One value per channel in every vector."""
        s.unify(["data", "output"])
        data = s.get("data")
        if data is None:
            return
        axis = positive_axis(p.axis, len(data))
        if not 0 <= axis < len(data):
            raise s.error(f"axis: expected −{len(data)} to {len(data) - 1}, got {p.axis}")
        for name in VECTORS:
            s.assign(name, (data[axis],))

    def infer_type(self, p: S, t: Types) -> None:
        """Statistics and parameters in float32 for 16-bit data."""
        t.unify(["data", "output"])
        for name in VECTORS:
            t.assign(name, statistics_type(t.get("data")))

    def reference(self, p: S, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """Statistics, then a scaled shift."""
        data, gamma, beta, moving_mean, moving_var = inputs
        x = wide(data)
        axis = positive_axis(p.axis, x.ndim)
        mean, var = moving_mean, moving_var
        if ctx.is_train and not p.use_global_stats and x.size:  # no examples have no statistics
            rest = tuple(a for a in range(x.ndim) if a != axis)
            mean = x.mean(rest, dtype=np.float64).astype(moving_mean.dtype)
            var = x.var(rest, dtype=np.float64).astype(moving_var.dtype)
            moving_mean = moving_mean * p.momentum + mean * (1 - p.momentum)
            moving_var = moving_var * p.momentum + var * (1 - p.momentum)
        scale = np.ones_like(gamma) if p.fix_gamma else gamma
        factor = scale / np.sqrt(var + p.eps)
        y = (x - along(mean, axis, x.ndim)) * along(factor, axis, x.ndim) + along(beta, axis, x.ndim)
        shown = 1 / np.sqrt(var + p.eps) if self.shown_inverted(p) else var
        return y.astype(data.dtype), mean, shown.astype(var.dtype), moving_mean, moving_var

    def backward(
        self,
        p: S,
        ctx: ReferenceContext,
        out_grad: Array,
        data: Array,
        gamma: Array,
        mean: Array,
        var: Array,
        moving_mean: Array,
        moving_var: Array,
    ) -> Arrays:
        """The chain rule through mean and variance; moving averages do not depend on data."""
        axis = positive_axis(p.axis, data.ndim)
        rest = tuple(a for a in range(data.ndim) if a != axis)
        inverse = var if self.shown_inverted(p) else 1 / np.sqrt(var + p.eps)
        normal = (data - along(mean, axis, data.ndim)) * along(inverse, axis, data.ndim)
        beta_grad = out_grad.sum(rest)
        gamma_sum = (out_grad * normal).sum(rest)
        scale = np.ones_like(gamma) if p.fix_gamma else gamma
        dx = out_grad * along(scale * inverse, axis, data.ndim)
        if ctx.is_train and not p.use_global_stats:
            count = max(data.size // data.shape[axis], 1) if data.size else 1
            shift = along(beta_grad, axis, data.ndim) + normal * along(gamma_sum, axis, data.ndim)
            dx = dx - along(scale * inverse, axis, data.ndim) * shift / count
        return dx, np.zeros_like(gamma) if p.fix_gamma else gamma_sum, beta_grad


class BatchNorm(Normalization[BatchNormParam]):
    """(x − mean) / √(var + eps) · gamma + beta, per channel.

    In training mean and (biased) variance are the batch's and the moving averages are updated;
    otherwise, or with use_global_stats, they are the moving averages. Mean and variance are
    hidden outputs; output_mean_var shows them, the variance as 1/√(var + eps).
    """

    name = "BatchNorm"
    floating_only = True
    aliases = ("BatchNorm_v1",)
