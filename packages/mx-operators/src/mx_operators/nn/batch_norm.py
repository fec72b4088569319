# SPDX-License-Identifier: Apache-2.0
"""BatchNorm.

Source: Ioffe and Szegedy, Batch Normalization, ICML 2015.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core.operator import OperatorProperty, opt, param
from mx_core.operator.property import ReferenceContext
from mx_operators.nn.base import along, positive_axis, statistics_type, wide


@param
class BatchNormParam:
    """Constants, axis, and which statistics are used."""

    eps: float = opt(1e-3, "added to the variance", lower=0.0)
    momentum: float = opt(0.9, "share of the old value in a moving average")
    fix_gamma: bool = opt(True, "gamma is 1 and gets no gradient")
    use_global_stats: bool = opt(False, "use the moving averages in training too")
    output_mean_var: bool = opt(False, "show the mean and 1/√(variance + eps) as outputs")
    axis: int = opt(1, "the channel axis")
    cudnn_off: bool = opt(False, "accepted for compatibility")
    min_calib_range: float | None = opt(None, "accepted for compatibility")
    max_calib_range: float | None = opt(None, "accepted for compatibility")


_VECTORS = ("gamma", "beta", "moving_mean", "moving_var", "mean", "var")


class BatchNorm(OperatorProperty):
    """(x − mean) / √(var + eps) · gamma + beta, per channel.

    In training mean and (biased) variance are the batch's and the moving averages are updated;
    otherwise, or with use_global_stats, they are the moving averages. Mean and variance are
    hidden outputs; output_mean_var shows them, the variance as 1/√(var + eps).
    """

    name = "BatchNorm"
    aliases = ("BatchNorm_v1",)
    Param = BatchNormParam
    arguments = ("data", "gamma", "beta")
    auxiliaries = ("moving_mean", "moving_var")
    input_attrs = {
        "moving_mean": {"__init__": '["zero", {}]'},
        "moving_var": {"__init__": '["one", {}]'},
    }
    results = ("output", "mean", "var")
    needs_train_flag = True

    def shown_inverted(self, p: Any) -> bool:
        """Whether the output `var` is 1/√(var + eps)."""
        return bool(p.output_mean_var)

    def num_visible_outputs(self, p: Any) -> int:
        """One, or three with output_mean_var."""
        return 3 if p.output_mean_var else 1

    def infer_shape(self, p: Any, s: Any) -> None:
        """One value per channel in every vector."""
        s.unify(["data", "output"])
        data = s.get("data")
        if data is None:
            return
        axis = positive_axis(p.axis, len(data))
        if not 0 <= axis < len(data):
            raise s.error(f"axis: expected −{len(data)} to {len(data) - 1}, got {p.axis}")
        for name in _VECTORS:
            s.assign(name, (data[axis],))

    def infer_type(self, p: Any, t: Any) -> None:
        """Statistics and parameters in float32 for 16-bit data."""
        t.unify(["data", "output"])
        for name in _VECTORS:
            t.assign(name, statistics_type(t.get("data")))

    def gradient(self, p: Any, g: Any) -> Any:
        """One operator for all gradients."""
        kept = (g.out_grad(), g.input(0), g.input(1), g.output(1), g.output(2), g.input(3), g.input(4))
        return g.op("_backward_BatchNorm", kept, params=p)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardBatchNorm(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Statistics, then a scaled shift."""
        data, gamma, beta, moving_mean, moving_var = inputs
        x = wide(data)
        axis = positive_axis(p.axis, x.ndim)
        mean, var = moving_mean, moving_var
        if ctx.is_train and not p.use_global_stats:
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


class BackwardBatchNorm(OperatorProperty):
    """Gradients of BatchNorm with respect to data, gamma and beta.

    mean and var are the forward operator's hidden outputs. Where the moving averages were used
    they do not depend on data.
    """

    name = "_backward_BatchNorm"
    Param = BatchNormParam
    arguments = ("out_grad", "data", "gamma", "mean", "var", "moving_mean", "moving_var")
    results = ("data_grad", "gamma_grad", "beta_grad")
    needs_train_flag = True
    forward: type[BatchNorm] = BatchNorm

    def infer_shape(self, p: Any, s: Any) -> None:
        """As the forward inputs."""
        s.unify(["out_grad", "data", "data_grad"])
        s.unify([*self.arguments[2:], "gamma_grad", "beta_grad"])

    def infer_type(self, p: Any, t: Any) -> None:
        """As the forward inputs."""
        t.unify(["out_grad", "data", "data_grad"])
        t.unify([*self.arguments[2:], "gamma_grad", "beta_grad"])

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """The chain rule through mean and variance."""
        out_grad, data, gamma, mean, var, _, _ = inputs
        g, x = wide(out_grad), wide(data)
        axis = positive_axis(p.axis, x.ndim)
        rest = tuple(a for a in range(x.ndim) if a != axis)
        inverse = var if self.forward().shown_inverted(p) else 1 / np.sqrt(var + p.eps)
        normal = (x - along(mean, axis, x.ndim)) * along(inverse, axis, x.ndim)
        beta_grad = g.sum(rest)
        gamma_sum = (g * normal).sum(rest)
        scale = np.ones_like(gamma) if p.fix_gamma else gamma
        dx = g * along(scale * inverse, axis, x.ndim)
        if ctx.is_train and not p.use_global_stats:
            count = max(x.size // x.shape[axis], 1) if x.size else 1
            shift = along(beta_grad, axis, x.ndim) + normal * along(gamma_sum, axis, x.ndim)
            dx = dx - along(scale * inverse, axis, x.ndim) * shift / count
        gamma_grad = np.zeros_like(gamma) if p.fix_gamma else gamma_sum
        return dx.astype(data.dtype), gamma_grad.astype(gamma.dtype), beta_grad.astype(gamma.dtype)


OPERATORS: tuple[type[OperatorProperty], ...] = (BatchNorm,)
