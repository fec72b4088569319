# SPDX-License-Identifier: Apache-2.0
"""Deconvolution: the transpose of Convolution (fractionally strided convolution)."""

from __future__ import annotations

from collections.abc import Sequence

from mx_core.operator import (
    Array,
    Arrays,
    ReferenceContext,
    Shape,
    Shapes,
    opt,
    required,
)
from mx_operators.bilinear import Biased, BiasedParam
from mx_operators.nn.base import per_axis, wide
from mx_operators.nn.convolution import (
    ConvolutionParam,
    correlate,
    correlate_data_gradient,
    correlate_filter_gradient,
)
from mx_operators.nn.window import WindowParam, check_rank, check_window, geometry


class DeconvolutionParam(WindowParam, BiasedParam):
    """Window, filters, groups, and how the output extent is chosen."""

    pad: Shape = opt((), "cut from both sides of the output; () is 0", lower=0)
    adj: Shape = opt((), "added to the output extent; () is 0", lower=0)
    target_shape: Shape = opt((), "output extents, instead of pad and adj", lower=0)
    num_filter: int = required("output channels", lower=1)
    num_group: int = opt(1, "groups of channels", lower=1)
    workspace: int = opt(512, "upper bound of scratch memory, MiB", lower=0)
    no_bias: bool = opt(True, "leave out the bias")
    cudnn_tune: str | None = opt(None, "accepted for compatibility")
    cudnn_off: bool = opt(False, "on a GPU: kernels of mx, also where cuDNN is installed")
    layout: str | None = opt(None, "axis order of data", choices=("NCW", "NCHW", "NCDHW", None))


def cut_and_adjust(p: DeconvolutionParam, spatial: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """pad and adj in force; derived from target_shape when that is given."""
    stride, dilate, pad = geometry(p)
    if not any(p.target_shape):
        return pad, per_axis(p.adj, len(p.kernel), 0)
    pads, adjs = [], []
    for size, k, s, d, target in zip(spatial, p.kernel, stride, dilate, p.target_shape, strict=True):
        excess = s * (size - 1) + d * (k - 1) + 1 - target
        pads.append((excess + 1) // 2)
        adjs.append(excess % 2)
    return tuple(pads), tuple(adjs)


def out_spatial(p: DeconvolutionParam, spatial: Sequence[int]) -> tuple[int, ...]:
    """Output extents."""
    stride, dilate, _ = geometry(p)
    pad, adj = cut_and_adjust(p, spatial)
    return tuple(
        s * (e - 1) + d * (k - 1) + 1 - 2 * q + a
        for e, k, s, d, q, a in zip(spatial, p.kernel, stride, dilate, pad, adj, strict=True)
    )


class Deconvolution(Biased[DeconvolutionParam]):
    """Transposed convolution: data (N, C, …) and weight (C, F/G, K…) give (N, F, …).

    Output extent: stride·(size − 1) + dilate·(kernel − 1) + 1 − 2·pad + adj.
    """

    name = "Deconvolution"

    def infer_shape(self, p: DeconvolutionParam, s: Shapes) -> None:
        """Weight, bias and output from data, if its rank is known."""
        rank = len(p.kernel)
        check_window(p, rank, s)
        if p.num_filter % p.num_group:
            raise s.error(f"num_filter {p.num_filter} is not a multiple of num_group {p.num_group}")
        if p.target_shape and len(p.target_shape) != rank:
            raise s.error(f"target_shape: expected {rank} values, got {p.target_shape}")
        stride, adj = per_axis(p.stride, rank, 1), per_axis(p.adj, rank, 0)
        if not any(p.target_shape) and any(a >= step for a, step in zip(adj, stride, strict=True)):
            raise s.error(f"adj: expected less than stride {stride}, got {adj}")
        data = s.get("data")
        if data is None:
            return
        check_rank(p, data, s)
        if not p.no_bias:
            s.assign("bias", (p.num_filter,))
        if data[1] >= 0 and data[1] % p.num_group:
            raise s.error(f"data: {data[1]} channels do not divide into {p.num_group} groups")
        s.assign("weight", (data[1], p.num_filter // p.num_group, *p.kernel))
        extents = [
            -1 if size < 0 and not any(p.target_shape) else extent
            for size, extent in zip(data[2:], out_spatial(p, data[2:]), strict=True)
        ]
        cut = cut_and_adjust(p, data[2:])[0]
        if any(
            size >= 0 and (extent <= 0 or q < 0)
            for size, extent, q in zip(data[2:], extents, cut, strict=True)
        ):
            raise s.error(f"no positive output extent for data {data}, target {p.target_shape}")
        s.assign("output", (data[0], p.num_filter, *extents))

    def reference(self, p: DeconvolutionParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """The data gradient of the convolution it transposes."""
        x, w = wide(inputs[0]), wide(inputs[1])
        q = _as_convolution(p, x.shape)
        y = correlate_data_gradient(x, w, (x.shape[0], p.num_filter, *out_spatial(p, x.shape[2:])), q)
        if not p.no_bias:
            y = y + wide(inputs[2]).reshape(1, -1, *(1,) * len(p.kernel))
        return (y.astype(inputs[0].dtype),)

    def backward(self, p: DeconvolutionParam, out_grad: Array, data: Array, weight: Array) -> Arrays:
        """Convolution for data, correlation of out_grad with data for weight."""
        q = _as_convolution(p, data.shape)
        extents = tuple(slice(0, e) for e in data.shape[2:])
        dx = correlate(out_grad, weight, q)[(slice(None), slice(None), *extents)]
        dw = correlate_filter_gradient(out_grad, data, weight.shape, q)
        return (dx, dw, out_grad.sum((0, *range(2, out_grad.ndim))))[: len(self.inputs(p))]


def _as_convolution(p: DeconvolutionParam, x_shape: Sequence[int]) -> ConvolutionParam:
    """Parameters of the convolution whose transpose this is."""
    return ConvolutionParam(
        kernel=p.kernel, stride=p.stride, dilate=p.dilate, pad=cut_and_adjust(p, x_shape[2:])[0],
        num_filter=x_shape[1], num_group=p.num_group, no_bias=True,
    )  # fmt: skip
