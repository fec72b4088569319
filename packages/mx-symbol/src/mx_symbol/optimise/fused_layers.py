# SPDX-License-Identifier: Apache-2.0
"""The operator that a convolution becomes with what follows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core import operators
from mx_core.expression import evaluate, trace
from mx_core.expression import functions as f
from mx_core.operator import OperatorProperty, Shape, infer_shapes, opt, param, required
from mx_core.operator.property import ReferenceContext

ACTIVATIONS = ("relu", "sigmoid", "tanh", "softrelu", "leaky", "clip")


@param
class FusedConvolutionParam:
    """Those of Convolution, and what follows."""

    kernel: Shape = required("window")
    stride: Shape = opt((), "step per spatial axis")
    dilate: Shape = opt((), "step inside the window")
    pad: Shape = opt((), "zeros at both ends")
    num_filter: int = required("output channels", lower=1)
    num_group: int = opt(1, "groups of channels", lower=1)
    no_bias: bool = opt(False, "without bias")
    layout: str | None = opt(None, "order of the axes")
    residual: bool = opt(False, "the last input is added to the result")
    activation: str | None = opt(None, "applied last", choices=(*ACTIVATIONS, None))
    alpha: float = opt(0.0, "of the activation: slope, or lower bound")
    beta: float = opt(0.0, "of the activation: upper bound")
    packed: Shape = opt((), "shape of the weight, where it comes in the order that the kernel wants")


class FusedConvolution(OperatorProperty):
    """activation(Convolution(data, weight, bias) + residual)."""

    name = "_fused_Convolution"
    Param = FusedConvolutionParam
    arguments = ("data", "weight", "bias", "residual")

    def inputs(self, p: Any) -> tuple[str, ...]:
        """bias unless no_bias, residual if there is one."""
        return ("data", "weight", *(() if p.no_bias else ("bias",)), *(("residual",) if p.residual else ()))

    def convolution(self, p: Any) -> Any:
        """The parameters of the convolution alone."""
        names = ("kernel", "stride", "dilate", "pad", "num_filter", "num_group", "no_bias", "layout")
        return operators.get("Convolution").Param.parse({name: getattr(p, name) for name in names})

    def infer_shape(self, p: Any, s: Any) -> None:
        """As the convolution; a packed weight is a vector of whatever length."""
        if not p.packed:
            operators.get("Convolution").infer_shape(self.convolution(p), s)
        elif s.known("data") is not None:
            data, window = s.known("data"), self.convolution(p)
            known = [data, p.packed, *(() if p.no_bias else ((p.num_filter,),))]
            s.assign("output", infer_shapes(operators.get("Convolution"), window, known)[1][0])
        if p.residual:
            s.unify(["residual", "output"])

    def infer_type(self, p: Any, t: Any) -> None:
        """All of one type, but for the bias of 16-bit data, which may be float32; a packed weight is float32."""
        t.unify([n for n in (*self.inputs(p), "output") if n != "bias" and not (p.packed and n == "weight")])

    def inplace(self, p: Any) -> tuple[tuple[int, int], ...]:
        """The sum may overwrite the residual."""
        return ((len(self.inputs(p)) - 1, 0),) if p.residual else ()

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """One after the other."""
        layer = inputs[: 2 if p.no_bias else 3]
        (y,) = operators.get("Convolution").reference(self.convolution(p), layer, ctx)
        if p.residual:
            y = (y + inputs[-1]).astype(y.dtype)
        if p.activation is None:
            return (y,)
        return evaluate(trace(lambda x: _activation(p, x), 1), [np.asarray(y)])


def _activation(p: Any, x: Any) -> Any:
    if p.activation == "clip":
        return f.minimum(f.maximum(x, p.alpha), p.beta)
    if p.activation == "leaky":
        return f.where(x > 0, x, x * p.alpha)
    name = {"softrelu": "softplus"}.get(p.activation, p.activation)
    return getattr(f, name)(x)


FUSED_CONVOLUTION = FusedConvolution()
