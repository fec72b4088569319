# SPDX-License-Identifier: Apache-2.0
"""Convolution: cross-correlation of an N-dimensional signal with a bank of filters."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from mx_core.operator import (
    Array,
    Arrays,
    ReferenceContext,
    Shapes,
    opt,
    required,
)
from mx_operators.bilinear import Biased, BiasedParam
from mx_operators.nn.base import at, pad_spatial, wide, windows
from mx_operators.nn.window import (
    WindowParam,
    check_rank,
    checked_extents,
    geometry,
    in_extents,
    window_of,
)

LAYOUTS = ("NCW", "NCHW", "NCDHW", "NHWC", "NDHWC")


class ConvolutionParam(WindowParam, BiasedParam):
    """Window, filters, groups."""

    num_filter: int = required("output channels", lower=1)
    num_group: int = opt(1, "groups of channels convolved separately", lower=1)
    workspace: int = opt(1024, "upper bound of scratch memory, MiB", lower=0)
    no_bias: bool = opt(False, "leave out the bias")
    cudnn_tune: str | None = opt(None, "accepted for compatibility")
    cudnn_off: bool = opt(False, "on a GPU: kernels of mx, also where cuDNN is installed")
    layout: str | None = opt(
        None, "axis order of data; channels first unless NHWC or NDHWC", choices=(*LAYOUTS, None)
    )


def channels_last(p: ConvolutionParam) -> bool:
    """Whether data are (N, …, C)."""
    return p.layout in ("NHWC", "NDHWC")


def to_first(x: Array) -> Array:
    """(N, …, C) as (N, C, …)."""
    return np.moveaxis(x, -1, 1)


def correlate(x: Array, w: Array, p: ConvolutionParam) -> Array:
    """Grouped cross-correlation of (N, C, …) with (F, C/G, K…)."""
    stride, dilate, pad = geometry(p)
    view = windows(pad_spatial(x, [(q, q) for q in pad]), p.kernel, stride, dilate)
    n, g, rank = x.shape[0], p.num_group, len(p.kernel)
    view = view.reshape(n, g, view.shape[1] // g, *view.shape[2:])
    filters = w.reshape(g, w.shape[0] // g, *w.shape[1:])
    out, taps = "opq"[:rank], "ijk"[:rank]
    y = np.einsum(f"ngc{out}{taps},gfc{taps}->ngf{out}", view, filters, optimize=True)
    return y.reshape(n, w.shape[0], *y.shape[3:])


def correlate_filter_gradient(x: Array, g: Array, w_shape: Sequence[int], p: ConvolutionParam) -> Array:
    """d loss / d w for `correlate`."""
    stride, dilate, pad = geometry(p)
    view = windows(pad_spatial(x, [(q, q) for q in pad]), p.kernel, stride, dilate)
    n, groups, rank = x.shape[0], p.num_group, len(p.kernel)
    spatial = g.shape[2:]
    view = view[(slice(None), slice(None), *(slice(0, e) for e in spatial))]
    view = view.reshape(n, groups, view.shape[1] // groups, *view.shape[2:])
    heads = g.reshape(n, groups, g.shape[1] // groups, *spatial)
    out, taps = "opq"[:rank], "ijk"[:rank]
    dw = np.einsum(f"ngc{out}{taps},ngf{out}->gfc{taps}", view, heads, optimize=True)
    return dw.reshape(tuple(w_shape))


def correlate_data_gradient(g: Array, w: Array, x_shape: Sequence[int], p: ConvolutionParam) -> Array:
    """d loss / d x for `correlate`: every tap scatters its share."""
    stride, dilate, pad = geometry(p)
    n, c, *spatial = x_shape
    groups = p.num_group
    full = np.zeros((n, c, *(e + 2 * q for e, q in zip(spatial, pad, strict=True))), g.dtype)
    heads = g.reshape(n, groups, g.shape[1] // groups, *g.shape[2:])
    filters = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    for tap in product(*(range(k) for k in p.kernel)):
        share = np.einsum("ngf...,gfc->ngc...", heads, at(filters, tap), optimize=True)
        where = tuple(
            slice(t * d, t * d + e * s, s)
            for t, d, e, s in zip(tap, dilate, g.shape[2:], stride, strict=True)
        )
        full[(slice(None), slice(None), *where)] += share.reshape(n, c, *g.shape[2:])
    inner = tuple(slice(q, q + e) for q, e in zip(pad, spatial, strict=True))
    return full[(slice(None), slice(None), *inner)]


class Convolution(Biased[ConvolutionParam]):
    """Cross-correlation: data (N, C, …) and weight (F, C/G, K…) give (N, F, …).

    Output extent: floor((size + 2·pad − dilate·(kernel − 1) − 1) / stride) + 1 per spatial axis.
    With layout NHWC or NDHWC data are (N, …, C) and weights (F, K…, C/G).
    """

    name = "Convolution"
    aliases = ("Convolution_v1",)

    def infer_shape(self, p: ConvolutionParam, s: Shapes) -> None:
        """Weight, bias and output from data, if its rank is known.

        Backwards the batch size, and the extents of axes with a stride of 1.
        """
        window = window_of(p)
        if window.problem:
            raise s.error(window.problem)
        filters, groups = p.num_filter, p.num_group
        if filters % groups:
            raise s.error(f"num_filter {filters} is not a multiple of num_group {groups}")
        data = s.get("data")
        if data is None:
            return
        check_rank(p, data, s)
        if not p.no_bias:
            s.assign("bias", (filters,))
        last = p.layout is not None and channels_last(p)
        c, spatial = (data[-1], data[1:-1]) if last else (data[1], data[2:])
        if c >= 0 and (c % groups or c == 0):
            raise s.error(f"data: {c} channels do not divide into num_group {groups} groups")
        per_group = c // groups if c >= 0 else -1
        s.assign("weight", (filters, *p.kernel, per_group) if last else (filters, per_group, *p.kernel))
        extents = checked_extents(window, data, spatial, s)
        s.assign("output", (data[0], *extents, filters) if last else (data[0], filters, *extents))
        if -1 not in data:
            return
        known = s.ranked("output")
        found = in_extents(p, known[1:-1] if last else known[2:])
        s.assign("data", (known[0], *found, c) if last else (known[0], c, *found))

    def reference(self, p: ConvolutionParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        x, w = wide(inputs[0]), wide(inputs[1])
        if channels_last(p):
            x, w = to_first(x), to_first(w)
        y = correlate(x, w, p)
        if not p.no_bias:
            y = y + wide(inputs[2]).reshape(1, -1, *(1,) * len(p.kernel))
        if channels_last(p):
            y = np.moveaxis(y, 1, -1)
        return (y.astype(inputs[0].dtype),)

    def backward(self, p: ConvolutionParam, out_grad: Array, data: Array, weight: Array) -> Arrays:
        """Scatter for data, correlation for weight, sum for bias."""
        g, x, w = out_grad, data, weight
        if channels_last(p):
            g, x, w = to_first(g), to_first(x), to_first(w)
        dx = correlate_data_gradient(g, w, x.shape, p)
        dw = correlate_filter_gradient(x, g, w.shape, p)
        if channels_last(p):
            dx, dw = np.moveaxis(dx, 1, -1), np.moveaxis(dw, 1, -1)
        return (dx, dw, g.sum((0, *range(2, g.ndim))))[: len(self.inputs(p))]
