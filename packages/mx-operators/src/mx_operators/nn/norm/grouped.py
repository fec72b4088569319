# SPDX-License-Identifier: Apache-2.0
"""Shared code of InstanceNorm and GroupNorm."""

from __future__ import annotations

from math import prod
from typing import TypeVar

import numpy as np

from mx_core.operator import Array, Arrays, Operator, Params, ReferenceContext, Shapes, Types, opt
from mx_operators.nn.base import along, infer_statistics, wide


class GroupedNormParam(Params):
    """Constant."""

    eps: float = opt(1e-3, "added to the variance", lower=0.0)


Q = TypeVar("Q", bound=GroupedNormParam)


class GroupedNorm(Operator[Q]):
    """(N, C, …) normalised over groups of channels and all positions."""

    arguments = ("data", "gamma", "beta")
    results = ("output", "mean", "std")
    hidden = ("mean", "std")

    def groups(self, p: Q, channels: int) -> int:
        """How many groups."""
        raise NotImplementedError

    def infer_shape(self, p: Q, s: Shapes) -> None:
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

    def infer_type(self, p: Q, t: Types) -> None:
        """One type, but for statistics: float32 for 16-bit data."""
        infer_statistics(t)

    def reference(self, p: Q, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """Statistics per group, then a scaled shift per group."""
        x, gamma, beta = (wide(a) for a in inputs)
        n, groups = x.shape[0], self.groups(p, x.shape[1])
        flat = x.reshape(n, groups, prod(x.shape[1:]) // groups)
        mean = flat.mean(2, keepdims=True)
        std = np.sqrt(flat.var(2, keepdims=True) + p.eps)
        y = ((flat - mean) / std * along(gamma, 1, 3) + along(beta, 1, 3)).reshape(x.shape)
        stats = (mean.reshape(n, groups).astype(x.dtype), std.reshape(n, groups).astype(x.dtype))
        return y.astype(inputs[0].dtype), *stats

    def backward(self, p: Q, out_grad: Array, data: Array, gamma: Array, mean: Array, std: Array) -> Arrays:
        """The chain rule through the groups' statistics."""
        n, groups = mean.shape
        flat = data.reshape(n, groups, prod(data.shape[1:]) // groups)
        normal = (flat - mean[..., None]) / std[..., None]
        heads = out_grad.reshape(flat.shape)
        scaled = heads * along(gamma, 1, 3)
        dx = scaled - scaled.mean(2, keepdims=True)
        dx = (dx - normal * (scaled * normal).mean(2, keepdims=True)) / std[..., None]
        return dx.reshape(data.shape), (heads * normal).sum((0, 2)), heads.sum((0, 2))
