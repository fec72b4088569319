# SPDX-License-Identifier: Apache-2.0
"""UpSampling: larger images by repetition, or by a Deconvolution per channel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mx_core.operator import (
    Array,
    Arrays,
    GradientBuilder,
    Gradients,
    Operator,
    Params,
    ReferenceContext,
    Shapes,
    opt,
    required,
)
from mx_operators.nn.base import wide
from mx_operators.nn.deconvolution import Deconvolution, DeconvolutionParam
from mx_operators.vision.base import image_shape


class UpSamplingParam(Params):
    """Scale, and how."""

    scale: int = required("factor of height and width", lower=1, upper=1000)
    num_filter: int = opt(0, "channels of data with bilinear", lower=0)
    sample_type: str = required("repeat pixels, or filter", choices=("bilinear", "nearest"))
    multi_input_mode: str = opt(
        "concat", "several inputs with nearest are joined along the channels, or added",
        choices=("concat", "sum"),
    )  # fmt: skip
    num_args: int = required("number of inputs", lower=1, upper=4096)
    workspace: int = opt(512, "upper bound of scratch memory, MiB", lower=0)


def filter_param(p: UpSamplingParam) -> DeconvolutionParam:
    """The Deconvolution of sample_type bilinear: kernel 2·scale − scale mod 2, one group per channel."""
    kernel, pad = 2 * p.scale - p.scale % 2, p.scale // 2
    return DeconvolutionParam(
        kernel=(kernel, kernel), stride=(p.scale, p.scale), pad=(pad, pad),
        num_filter=p.num_filter, num_group=p.num_filter, no_bias=True,
    )  # fmt: skip


def infer_repetition(p: UpSamplingParam, s: Shapes, names: Sequence[str], result: str) -> None:
    """Extents of images that are repeated and joined: the first one decides."""
    shapes = [image_shape(s, name) for name in names]
    first = shapes[0]
    if first is None or -1 in first[2:] or any(x is None for x in shapes):
        return
    new = tuple(p.scale * e for e in first[2:])
    known = [x for x in shapes if x is not None]
    for name, shape in zip(names, known, strict=True):
        if any(e == 0 or (e > 0 and n % e) for e, n in zip(shape[2:], new, strict=True)):
            raise s.error(f"{name}: extents of {shape} do not divide those of the result, {new}")
        s.assign(name, (first[0], first[1] if p.multi_input_mode == "sum" else -1, -1, -1))
    channels = [shape[1] for shape in known]
    total = first[1] if p.multi_input_mode == "sum" else -1 if -1 in channels else sum(channels)
    s.assign(result, (first[0], total, *new))


class UpSampling(Operator[UpSamplingParam]):
    """data (N, C, H, W) gives (N, C, scale·H, scale·W).

    nearest repeats pixels; further inputs are brought to the extents of the first one's result.
    bilinear is a Deconvolution with stride scale and a weight (C, 1, K, K) that is learned or set to
    bilinear interpolation (initializer Bilinear).
    """

    name = "UpSampling"
    variadic = "num_args"
    #: of the second input, with any sample_type: MXNet's files have it
    input_attrs = dict.fromkeys(("weight", "arg1"), {"__init__": '["bilinear", {}]'})

    def inputs(self, p: UpSamplingParam) -> tuple[str, ...]:
        """arg0, arg1, …, or data and weight."""
        if p.sample_type == "bilinear":
            return ("data", "weight")
        return super().inputs(p)

    def infer_shape(self, p: UpSamplingParam, s: Shapes) -> None:
        """The first input decides the extents."""
        if p.sample_type == "bilinear":
            if p.num_filter < 1:
                raise s.error("num_filter: expected the channels of data with bilinear, got 0")
            s.assign("data", (-1, p.num_filter, -1, -1))
            Deconvolution().infer_shape(filter_param(p), s)
            return
        infer_repetition(p, s, self.inputs(p), "output")

    def gradient(self, p: UpSamplingParam, g: GradientBuilder) -> Gradients:
        """That of the Deconvolution, or sums over the repeated pixels."""
        if p.sample_type == "bilinear":
            return g.op("_backward_Deconvolution", (g.out_grad(), *g.inputs), params=filter_param(p))
        return g.backward()

    def reference(self, p: UpSamplingParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        if p.sample_type == "bilinear":
            return Deconvolution().reference(filter_param(p), inputs, ctx)
        height, width = (p.scale * e for e in inputs[0].shape[2:])
        parts = [x.repeat(height // x.shape[2], 2).repeat(width // x.shape[3], 3) for x in inputs]
        joined = (
            np.asarray(sum(map(wide, parts))) if p.multi_input_mode == "sum" else np.concatenate(parts, 1)
        )
        return (joined.astype(inputs[0].dtype),)

    def backward(self, p: UpSamplingParam, out_grad: Array, inputs: Arrays) -> Arrays:
        """Sums over blocks of pixels, or that of the Deconvolution."""
        if p.sample_type == "bilinear":
            return Deconvolution().backward(filter_param(p), out_grad, *inputs)
        grads, begin = [], 0
        for x in inputs:
            n, c, h, w = x.shape
            part = out_grad if p.multi_input_mode == "sum" else out_grad[:, begin : begin + c]
            begin += c
            blocks = part.reshape(n, c, h, out_grad.shape[2] // h, w, out_grad.shape[3] // w)
            grads.append(blocks.sum((3, 5)))
        return grads
