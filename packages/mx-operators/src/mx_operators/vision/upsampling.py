# SPDX-License-Identifier: Apache-2.0
"""UpSampling: larger images by repetition, or by a Deconvolution per channel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core.operator import OperatorProperty, opt, param, required
from mx_core.operator.property import ReferenceContext
from mx_operators.nn.base import wide
from mx_operators.nn.deconvolution import Deconvolution, DeconvolutionParam
from mx_operators.vision.base import image_shape


@param
class UpSamplingParam:
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


def filter_param(p: Any) -> Any:
    """The Deconvolution of sample_type bilinear: kernel 2·scale − scale mod 2, one group per channel."""
    kernel, pad = 2 * p.scale - p.scale % 2, p.scale // 2
    return DeconvolutionParam(
        kernel=(kernel, kernel), stride=(p.scale, p.scale), pad=(pad, pad),
        num_filter=p.num_filter, num_group=p.num_filter, no_bias=True,
    )  # fmt: skip


def infer_repetition(p: Any, s: Any, names: Sequence[str], result: str) -> None:
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


class UpSampling(OperatorProperty):
    """data (N, C, H, W) gives (N, C, scale·H, scale·W).

    nearest repeats pixels; further inputs are brought to the extents of the first one's result.
    bilinear is a Deconvolution with stride scale and a weight (C, 1, K, K) that is learned or set to
    bilinear interpolation (initializer Bilinear).
    """

    name = "UpSampling"
    Param = UpSamplingParam
    variadic = "num_args"
    #: of the second input, whatever it is: MXNet's files say so
    input_attrs = dict.fromkeys(("weight", "arg1"), {"__init__": '["bilinear", {}]'})

    def inputs(self, p: Any) -> tuple[str, ...]:
        """arg0, arg1, …, or data and weight."""
        if p.sample_type == "bilinear":
            return ("data", "weight")
        return super().inputs(p)

    def infer_shape(self, p: Any, s: Any) -> None:
        """The first input decides the extents."""
        if p.sample_type == "bilinear":
            if p.num_filter < 1:
                raise s.error("num_filter: expected the channels of data with bilinear, got 0")
            s.assign("data", (-1, p.num_filter, -1, -1))
            Deconvolution().infer_shape(filter_param(p), s)
            return
        infer_repetition(p, s, self.inputs(p), "output")

    def gradient(self, p: Any, g: Any) -> Any:
        """That of the Deconvolution, or sums over the repeated pixels."""
        if p.sample_type == "bilinear":
            kept = (g.out_grad(), g.input(0), g.input(1))
            return g.op("_backward_Deconvolution", kept, params=filter_param(p))
        return g.op("_backward_UpSampling", [g.out_grad(), *map(g.input, range(p.num_args))], params=p)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardUpSampling(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """NumPy's repeat."""
        if p.sample_type == "bilinear":
            return Deconvolution().reference(filter_param(p), inputs, ctx)
        height, width = (p.scale * e for e in inputs[0].shape[2:])
        parts = [x.repeat(height // x.shape[2], 2).repeat(width // x.shape[3], 3) for x in inputs]
        joined: Any = sum(map(wide, parts)) if p.multi_input_mode == "sum" else np.concatenate(parts, 1)
        return (joined.astype(inputs[0].dtype),)


class BackwardUpSampling(OperatorProperty):
    """Gradients of UpSampling by repetition."""

    name = "_backward_UpSampling"
    Param = UpSamplingParam

    def inputs(self, p: Any) -> tuple[str, ...]:
        """out_grad, then the forward inputs."""
        return ("out_grad", *(f"arg{i}" for i in range(p.num_args)))

    def outputs(self, p: Any) -> tuple[str, ...]:
        """One per forward input."""
        return tuple(f"arg{i}_grad" for i in range(p.num_args))

    def infer_shape(self, p: Any, s: Any) -> None:
        """As the forward inputs, whose result has the shape of out_grad."""
        infer_repetition(p, s, self.inputs(p)[1:], "out_grad")
        for name in self.inputs(p)[1:]:
            s.unify([name, f"{name}_grad"])

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Sums over blocks of pixels."""
        head, grads, begin = wide(inputs[0]), [], 0
        for x in inputs[1:]:
            n, c, h, w = x.shape
            part = head if p.multi_input_mode == "sum" else head[:, begin : begin + c]
            begin += c
            blocks = part.reshape(n, c, h, head.shape[2] // h, w, head.shape[3] // w)
            grads.append(blocks.sum((3, 5)).astype(x.dtype))
        return grads


OPERATORS: tuple[type[OperatorProperty], ...] = (UpSampling,)
