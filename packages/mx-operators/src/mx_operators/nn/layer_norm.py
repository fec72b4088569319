# SPDX-License-Identifier: Apache-2.0
"""Normalisation over the axes of one example: LayerNorm, InstanceNorm, GroupNorm, L2, LRN."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from mx_core.operator import OperatorProperty, opt, param, required
from mx_core.operator.property import ReferenceContext
from mx_operators.backward import BackwardOperator
from mx_operators.nn.base import along, positive_axis, wide


@param
class LayerNormParam:
    """Axis and constant."""

    axis: int = opt(-1, "the axis that is normalised")
    eps: float = opt(1e-5, "added to the variance", lower=0.0)
    output_mean_var: bool = opt(False, "show mean and standard deviation as outputs")


class LayerNorm(OperatorProperty):
    """(x − mean) / √(var + eps) · gamma + beta along one axis.

    mean and std = √(var + eps) have extent 1 on that axis and are hidden unless output_mean_var.

    Source: Ba, Kiros and Hinton, Layer Normalization, 2016.
    """

    name = "LayerNorm"
    Param = LayerNormParam
    arguments = ("data", "gamma", "beta")
    results = ("output", "mean", "std")

    def num_visible_outputs(self, p: Any) -> int:
        """One, or three with output_mean_var."""
        return 3 if p.output_mean_var else 1

    def infer_shape(self, p: Any, s: Any) -> None:
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

    def gradient(self, p: Any, g: Any) -> Any:
        """One operator for all gradients."""
        kept = (g.out_grad(), g.input(0), g.input(1), g.output(1), g.output(2))
        return g.op("_backward_LayerNorm", kept, params=p)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardLayerNorm(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Statistics, then a scaled shift."""
        x, gamma, beta = (wide(a) for a in inputs)
        axis = positive_axis(p.axis, x.ndim)
        mean = x.mean(axis, keepdims=True)
        std = np.sqrt(x.var(axis, keepdims=True) + p.eps)
        y = (x - mean) / std * along(gamma, axis, x.ndim) + along(beta, axis, x.ndim)
        return tuple(a.astype(inputs[0].dtype) for a in (y, mean, std))


class BackwardLayerNorm(BackwardOperator):
    """Gradients of LayerNorm with respect to data, gamma and beta."""

    name = "_backward_LayerNorm"
    Param = LayerNormParam
    arguments = ("out_grad", "data", "gamma", "mean", "std")
    results = ("data_grad", "gamma_grad", "beta_grad")
    gradient_of = {"data_grad": "data", "gamma_grad": "gamma", "beta_grad": "gamma"}

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """The chain rule through mean and standard deviation."""
        g, x, gamma, mean, std = (wide(a) for a in inputs)
        axis = positive_axis(p.axis, x.ndim)
        rest = tuple(a for a in range(x.ndim) if a != axis)
        normal = (x - mean) / std
        scaled = g * along(gamma, axis, x.ndim)
        dx = scaled - scaled.mean(axis, keepdims=True)
        dx = (dx - normal * (scaled * normal).mean(axis, keepdims=True)) / std
        grads = (dx, (g * normal).sum(rest), g.sum(rest))
        return tuple(a.astype(inputs[0].dtype) for a in grads)


@param
class InstanceNormParam:
    """Constant."""

    eps: float = opt(1e-3, "added to the variance", lower=0.0)


@param
class GroupNormParam:
    """Groups and constant."""

    num_groups: int = opt(1, "groups of channels normalised together", lower=1)
    eps: float = opt(1e-5, "added to the variance", lower=0.0)
    output_mean_var: bool = opt(False, "show mean and standard deviation as outputs")


class _GroupedNorm(OperatorProperty):
    """(N, C, …) normalised over groups of channels and all positions."""

    arguments = ("data", "gamma", "beta")
    results = ("output", "mean", "std")

    def num_visible_outputs(self, p: Any) -> int:
        """Statistics are hidden unless asked for."""
        return 3 if getattr(p, "output_mean_var", False) else 1

    def groups(self, p: Any, channels: int) -> int:
        """How many groups."""
        raise NotImplementedError

    def infer_shape(self, p: Any, s: Any) -> None:
        """gamma and beta per group, statistics per example and group."""
        s.unify(["data", "output"])
        data = s.get("data")
        if data is None:
            return
        if len(data) < 3:
            raise s.error(f"data: expected at least 3 dimensions, got {data}")
        groups = self.groups(p, data[1])
        for name in ("gamma", "beta"):
            s.assign(name, (groups,))
        if data[1] >= 0 and data[1] % groups:
            raise s.error(f"{data[1]} channels do not divide into {groups} groups")
        for name in ("mean", "std"):
            s.assign(name, (data[0], groups))

    def infer_type(self, p: Any, t: Any) -> None:
        """One type."""
        t.unify(["data", "gamma", "beta", "output", "mean", "std"])

    def gradient(self, p: Any, g: Any) -> Any:
        """One operator for all gradients."""
        kept = (g.out_grad(), g.input(0), g.input(1), g.output(1), g.output(2))
        return g.op(f"_backward_{self.name}", kept, params=p)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Statistics per group, then a scaled shift per group."""
        x, gamma, beta = (wide(a) for a in inputs)
        n, groups = x.shape[0], self.groups(p, x.shape[1])
        flat = x.reshape(n, groups, prod(x.shape[1:]) // groups)
        mean = flat.mean(2, keepdims=True)
        std = np.sqrt(flat.var(2, keepdims=True) + p.eps)
        y = ((flat - mean) / std * along(gamma, 1, 3) + along(beta, 1, 3)).reshape(x.shape)
        stats = (mean.reshape(n, groups), std.reshape(n, groups))
        return tuple(a.astype(inputs[0].dtype) for a in (y, *stats))


class _BackwardGroupedNorm(BackwardOperator):
    arguments = ("out_grad", "data", "gamma", "mean", "std")
    results = ("data_grad", "gamma_grad", "beta_grad")
    gradient_of = {"data_grad": "data", "gamma_grad": "gamma", "beta_grad": "gamma"}

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """The chain rule through the groups' statistics."""
        g, x, gamma, mean, std = (wide(a) for a in inputs)
        n, groups = mean.shape
        flat = x.reshape(n, groups, prod(x.shape[1:]) // groups)
        normal = (flat - mean[..., None]) / std[..., None]
        heads = g.reshape(flat.shape)
        scaled = heads * along(gamma, 1, 3)
        dx = scaled - scaled.mean(2, keepdims=True)
        dx = (dx - normal * (scaled * normal).mean(2, keepdims=True)) / std[..., None]
        grads = (dx.reshape(x.shape), (heads * normal).sum((0, 2)), heads.sum((0, 2)))
        return tuple(a.astype(inputs[0].dtype) for a in grads)


class BackwardInstanceNorm(_BackwardGroupedNorm):
    """Gradients of InstanceNorm."""

    name = "_backward_InstanceNorm"
    Param = InstanceNormParam


class BackwardGroupNorm(_BackwardGroupedNorm):
    """Gradients of GroupNorm."""

    name = "_backward_GroupNorm"
    Param = GroupNormParam


class InstanceNorm(_GroupedNorm):
    """Each channel of each example normalised by itself.

    Source: Ulyanov, Vedaldi and Lempitsky, Instance Normalization, 2016.
    """

    name = "InstanceNorm"
    Param = InstanceNormParam

    def groups(self, p: Any, channels: int) -> int:
        """One channel a group."""
        return channels

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardInstanceNorm(),)


class GroupNorm(_GroupedNorm):
    """Groups of channels of each example normalised together; one gamma and beta per group,
    as in MXNet 1.x.

    Source: Wu and He, Group Normalization, ECCV 2018.
    """

    name = "GroupNorm"
    Param = GroupNormParam

    def groups(self, p: Any, channels: int) -> int:
        """num_groups."""
        return int(p.num_groups)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardGroupNorm(),)


@param
class LRNParam:
    """Window and constants."""

    alpha: float = opt(1e-4, "weight of the squared neighbours")
    beta: float = opt(0.75, "exponent")
    knorm: float = opt(2.0, "constant term")
    nsize: int = required(
        "neighbouring channels summed over; of an even number, one less", lower=1, upper=2**31 - 1
    )


def _neighbours(squares: Any, nsize: int) -> Any:
    total = np.zeros_like(squares)
    c = squares.shape[1]
    half = min((nsize - 1) // 2, c)
    for offset in range(-half, half + 1):
        low, high = max(0, -offset), min(c, c - offset)
        if low < high:
            total[:, low:high] += squares[:, low + offset : high + offset]
    return total


class LRN(OperatorProperty):
    """x / (knorm + alpha/nsize · Σ neighbours²)^beta across channels of (N, C, …).

    Source: Krizhevsky, Sutskever and Hinton, ImageNet Classification, NIPS 2012, section 3.3.
    """

    name = "LRN"
    Param = LRNParam
    results = ("output", "tmp_norm")

    def num_visible_outputs(self, p: Any) -> int:
        """The bracket is hidden."""
        return 1

    def infer_shape(self, p: Any, s: Any) -> None:
        """All equal; there are channels."""
        super().infer_shape(p, s)
        data = s.get("data")
        if data is not None and len(data) < 2:
            raise s.error(f"data: expected (batch, channels, ...), got {data}")

    def gradient(self, p: Any, g: Any) -> Any:
        """Needs data and the bracket."""
        return g.op("_backward_LRN", (g.out_grad(), g.input(0), g.output(1)), params=p)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardLRN(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """A windowed sum over channels."""
        x = wide(inputs[0])
        norm = p.knorm + p.alpha / p.nsize * _neighbours(x * x, p.nsize)
        return tuple(a.astype(inputs[0].dtype) for a in (x * norm**-p.beta, norm))


class BackwardLRN(BackwardOperator):
    """Gradient of LRN."""

    name = "_backward_LRN"
    Param = LRNParam
    arguments = ("out_grad", "data", "tmp_norm")
    results = ("data_grad",)
    gradient_of = {"data_grad": "data"}

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Direct term minus what flows through the neighbours."""
        g, x, norm = (wide(a) for a in inputs)
        through = _neighbours(g * x * norm ** (-p.beta - 1), p.nsize)
        dx = g * norm**-p.beta - 2 * p.alpha * p.beta / p.nsize * x * through
        return (dx.astype(inputs[0].dtype),)


OPERATORS: tuple[type[OperatorProperty], ...] = (LayerNorm, InstanceNorm, GroupNorm, LRN)
