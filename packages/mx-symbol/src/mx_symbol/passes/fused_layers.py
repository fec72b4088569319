# SPDX-License-Identifier: Apache-2.0
"""The operators that convolutions and fully connected layers become with what follows them.

They are declared here, as `_fused` and `_fused_attention` are next to their passes, and not with the operators that
users apply: only passes make them, for one program, after inference and differentiation. No symbol file holds one,
they are not registered by name, and none has a gradient. Kernel packages know them by name alone, as all operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mx_core import operators
from mx_core.expression import evaluate, trace
from mx_core.expression import functions as f
from mx_core.operator import Operator, Params, Shape, infer_shapes, opt, required
from mx_core.operator.declaration import ReferenceContext
from mx_symbol.graph.ir import parameters

ACTIVATIONS = ("relu", "sigmoid", "tanh", "softrelu", "leaky", "clip", "gelu")


class FusedConvolutionParam(Params):
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


class FusedFullyConnectedParam(Params):
    """Those of FullyConnected, and what follows."""

    num_hidden: int = required("columns of the result", lower=1)
    no_bias: bool = opt(False, "without bias")
    flatten: bool = opt(True, "all axes but the first are one")
    residual: bool = opt(False, "the last input is added to the result")
    activation: str | None = opt(None, "applied last", choices=(*ACTIVATIONS, None))
    alpha: float = opt(0.0, "of the activation: slope, or lower bound")
    beta: float = opt(0.0, "of the activation: upper bound")
    packed: Shape = opt((), "shape of the weight, where it comes in the order that the kernel wants")


class FusedLayer(Operator):
    """activation(layer(data, weight, bias) + residual)."""

    #: the operator it begins with, and the parameters that it has from there
    layer: ClassVar[str]
    taken: ClassVar[tuple[str, ...]]
    arguments = ("data", "weight", "bias", "residual")
    differentiable = False  # of inference alone
    custom_gradient = True

    def inputs(self, p: Any) -> tuple[str, ...]:
        """bias unless no_bias, residual if there is one."""
        return ("data", "weight", *(() if p.no_bias else ("bias",)), *(("residual",) if p.residual else ()))

    def layer_params(self, p: Any) -> Any:
        """The parameters of the layer alone."""
        return parameters(operators.get(self.layer), {name: getattr(p, name) for name in self.taken})

    def infer_shape(self, p: Any, s: Any) -> None:
        """As the layer; a packed weight is a vector of any length."""
        layer, params = operators.get(self.layer), self.layer_params(p)
        if not p.packed:
            layer.infer_shape(params, s)
        elif (data := s.known("data")) is not None:
            known = [data, p.packed, *(() if p.no_bias else (s.known("bias"),))]
            s.assign("output", infer_shapes(layer, params, known)[1][0])
        if p.residual:
            s.unify(["residual", "output"])

    def infer_type(self, p: Any, t: Any) -> None:
        """All of one type, but for the bias of 16-bit data, which may be float32, and a packed weight, which is."""
        apart = ("bias", "weight") if p.packed else ("bias",)
        t.unify([name for name in (*self.inputs(p), "output") if name not in apart])

    def inplace(self, p: Any) -> tuple[tuple[int, int], ...]:
        """The sum may overwrite the residual."""
        return ((len(self.inputs(p)) - 1, 0),) if p.residual else ()

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """One after the other."""
        layer = inputs[: 2 if p.no_bias else 3]
        (y,) = operators.get(self.layer).reference(self.layer_params(p), layer, ctx)
        if p.residual:
            y = (y + inputs[-1]).astype(y.dtype)
        if p.activation is None:
            return (y,)
        return evaluate(trace(lambda x: self.activated(p, x), 1), [np.asarray(y)])

    @staticmethod
    def activated(p: Any, x: Any) -> Any:
        """The activation of a traced value, by parameters of a fused layer; kernel packages trace it too."""
        if p.activation is None:
            return x
        if p.activation == "clip":
            return f.minimum(f.maximum(x, p.alpha), p.beta)
        if p.activation == "leaky":
            return f.where(x > 0, x, x * p.alpha)
        if p.activation == "gelu":
            return 0.5 * x * (1 + f.erf(x * 2**-0.5))
        name = {"softrelu": "softplus"}.get(p.activation, p.activation)
        return getattr(f, name)(x)


class FusedConvolution(FusedLayer):
    """activation(Convolution(data, weight, bias) + residual)."""

    name = "_fused_Convolution"
    Param = FusedConvolutionParam
    layer = "Convolution"
    taken = ("kernel", "stride", "dilate", "pad", "num_filter", "num_group", "no_bias", "layout")


class FusedFullyConnected(FusedLayer):
    """activation(FullyConnected(data, weight, bias) + residual)."""

    name = "_fused_FullyConnected"
    Param = FusedFullyConnectedParam
    layer = "FullyConnected"
    taken = ("num_hidden", "no_bias", "flatten")


FUSED_CONVOLUTION = FusedConvolution()
FUSED_FULLY_CONNECTED = FusedFullyConnected()
#: by the layer that they begin with
FUSED_LAYERS: dict[str, FusedLayer] = {op.layer: op for op in (FUSED_CONVOLUTION, FUSED_FULLY_CONNECTED)}
