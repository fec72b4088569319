# SPDX-License-Identifier: Apache-2.0
"""Pooling: maximum, average, sum or p-norm of windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from operator import ge
from typing import Any

import numpy as np

from mx_core.operator import (
    Array,
    Arrays,
    GradientBuilder,
    Gradients,
    Operator,
    Params,
    ReferenceContext,
    Shape,
    Shapes,
    opt,
)
from mx_operators.nn.base import at, wide
from mx_operators.nn.convolution import to_first

#: kernel, stride, leading pad, output extent
Axis = tuple[int, int, int, int]

LAYOUTS = ("NCW", "NCHW", "NCDHW", "NWC", "NHWC", "NDHWC")


class PoolingParam(Params):
    """Window and what is taken of it."""

    kernel: Shape = opt((), "window, one extent per spatial axis", lower=1)
    pool_type: str = opt("max", "what is taken of a window", choices=("avg", "lp", "max", "sum"))
    global_pool: bool = opt(False, "one window over everything; kernel, stride and pad are ignored")
    cudnn_off: bool = opt(False, "accepted for compatibility")
    pooling_convention: str = opt(
        "valid", "output extent: rounded down, rounded up, or ceil(size/stride)",
        choices=("full", "same", "valid"),
    )  # fmt: skip
    stride: Shape = opt((), "step per spatial axis; () is 1", lower=1)
    pad: Shape = opt((), "padding on both sides per spatial axis; () is 0", lower=0)
    p_value: int | None = opt(None, "p of the p-norm", lower=1)
    count_include_pad: bool | None = opt(None, "avg counts padding; None is True")
    layout: str | None = opt(None, "axis order of data", choices=(*LAYOUTS, None))


def channels_last(p: PoolingParam) -> bool:
    """Whether data are (N, …, C)."""
    return p.layout in ("NWC", "NHWC", "NDHWC")


def geometry(p: PoolingParam, spatial: Sequence[int]) -> list[Axis]:
    """Per spatial axis (kernel, stride, leading pad, output extent); −1 where unknown."""
    if p.global_pool:
        return [(size, 1, 0, 1) for size in spatial]
    rank, convention = len(spatial), p.pooling_convention
    result = []
    stride, pad = p.stride or (1,) * rank, p.pad or (0,) * rank
    for size, k, s, q in zip(spatial, p.kernel, stride, pad, strict=True):
        if size < 0:
            result.append((k, s, q, -1))
        elif convention == "same":
            out = math.ceil(size / s)
            result.append((k, s, max((out - 1) * s + k - size, 0) // 2, out))
        else:
            span = size + 2 * q - k
            steps = math.ceil(span / s) if convention == "full" else span // s
            result.append((k, s, q, steps + 1 if span >= 0 else 0))
    return result


def window_at(x: Array, axes: Sequence[Axis], place: tuple[int, ...], p: PoolingParam) -> tuple[Array, int]:
    """The part of a window that lies in the data, and the divisor of an average."""
    cut, count = [], 1
    for (k, s, q, _), i, size in zip(axes, place, x.shape[2:], strict=True):
        first = i * s - q
        end = min(first + k, size + q)
        inside = slice(max(first, 0), max(min(end, size), 0))
        cut.append(inside)
        include = p.count_include_pad is not False
        count *= (end - first) if include else max(inside.stop - inside.start, 0)
    return x[(slice(None), slice(None), *cut)], max(count, 1)


def _reduce(window: Array, count: int, p: PoolingParam) -> Array:
    axes = tuple(range(2, window.ndim))
    if p.pool_type == "max":
        return np.fmax.reduce(window, axes, initial=_lowest(window.dtype))
    if p.pool_type == "sum":
        return window.sum(axes)
    if p.pool_type == "avg":
        return window.sum(axes) / count
    total = (window ** _exponent(p)).sum(axes)
    return np.sign(total) * np.abs(total) ** (1 / _exponent(p))


def _exponent(p: PoolingParam) -> int:
    return 1 if p.p_value is None else p.p_value


def _lowest(dtype: np.dtype[Any]) -> float:
    return np.finfo(dtype).min if dtype.kind == "f" else np.iinfo(dtype).min


def _share(window: Array, head: Array, y: Array, count: int, p: PoolingParam) -> Array:
    if p.pool_type == "sum":
        return np.broadcast_to(head, window.shape)
    if p.pool_type == "avg":
        return np.broadcast_to(head / count, window.shape)
    if p.pool_type == "lp":
        flat = (y == 0) & (_exponent(p) > 1)
        return np.where(flat, 0, head * (window / np.where(y == 0, 1, y)) ** (_exponent(p) - 1))
    flat = window.reshape(*window.shape[:2], math.prod(window.shape[2:]))
    share = np.zeros_like(flat)
    if flat.shape[2]:
        attained = flat == y.reshape(*head.shape[:2], 1)
        where = attained.argmax(2)[..., None]
        taken = np.where(attained.any(2, keepdims=True), head.reshape(*head.shape[:2], 1), 0)
        np.put_along_axis(share, where, taken, 2)
    return share.reshape(window.shape)


@lru_cache(maxsize=1024)
def _fits(p: PoolingParam, rank: int) -> bool:
    """Whether the window has one value per spatial axis, and none lies in the padding alone."""
    lengths = {len(value) for value in (p.kernel, p.stride or p.kernel, p.pad or p.kernel)}
    return lengths == {rank} and (p.pool_type == "sum" or not any(map(ge, p.pad, p.kernel)))


class Pooling(Operator[PoolingParam]):
    """Windows of data (N, C, …) reduced to one value each: max, avg, sum or lp, (Σ xᵖ)^(1/p).

    Neither padding nor NaN wins a maximum. `avg` divides by the window's size, padding included unless
    count_include_pad is False (what lies beyond the padding never counts).
    """

    name = "Pooling"
    floating_only = True
    aliases = ("Pooling_v1",)

    def infer_shape(self, p: PoolingParam, s: Shapes) -> None:
        """Output from data; batch and channels also backwards."""
        data = s.get("data")
        if data is None:
            return
        rank = len(data) - 2
        if p.pool_type == "lp" and p.p_value is None:
            raise s.error("p_value: required for pool_type 'lp'")
        if rank < 1 or rank > 3:
            raise s.error(f"data: expected 3 to 5 dimensions, got {data}")
        if not (p.global_pool or _fits(p, rank)):
            for name, value in (("kernel", p.kernel), ("stride", p.stride), ("pad", p.pad)):
                if len(value) != rank and (value or name == "kernel"):
                    raise s.error(f"{name}: expected {rank} values for data {data}, got {value}")
            raise s.error(f"pad {p.pad} must be smaller than kernel {p.kernel}")
        last = channels_last(p)
        spatial = data[1:-1] if last else data[2:]
        extents = [out for _, _, _, out in geometry(p, spatial)]
        if 0 in extents and 0 not in spatial:
            raise s.error(f"kernel {p.kernel} is larger than the padded data {data}, pad {p.pad}")
        out = (data[0], *extents, data[-1]) if last else (*data[:2], *extents)
        s.assign("output", out)
        if data[0] < 0:
            s.assign("data", (s.ranked("output")[0], *data[1:]))

    def reference(self, p: PoolingParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        x = wide(inputs[0])
        x = to_first(x) if channels_last(p) else x
        axes = geometry(p, x.shape[2:])
        out: Any = np.empty((*x.shape[:2], *(a[3] for a in axes)), x.dtype)
        for place in product(*(range(a[3]) for a in axes)):
            window, count = window_at(x, axes, place, p)
            out[(..., *place)] = _reduce(window, count, p)
        out = np.moveaxis(out, 1, -1) if channels_last(p) else out
        return (out.astype(inputs[0].dtype),)

    def backward(self, p: PoolingParam, out_grad: Array, data: Array, output: Array) -> Array:
        """Every window scatters its share; a maximum passes it to the first element that attains it."""
        g, x, y = out_grad, data, output
        if channels_last(p):
            g, x, y = to_first(g), to_first(x), to_first(y)
        axes = geometry(p, x.shape[2:])
        dx = np.zeros_like(x)
        for place in product(*(range(a[3]) for a in axes)):
            window, count = window_at(x, axes, place, p)
            target, _ = window_at(dx, axes, place, p)
            head = at(g, place).reshape(*g.shape[:2], *(1,) * len(axes))
            target += _share(window, head, at(y, place).reshape(head.shape), count, p)
        return np.moveaxis(dx, 1, -1) if channels_last(p) else dx

    def backward_gradient(self, p: PoolingParam, g: GradientBuilder) -> Gradients:
        """Of averages and sums, pooled again; that of others is not offered."""
        return g.linear() if p.pool_type in ("avg", "sum") else g.not_differentiable()
