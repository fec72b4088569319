# SPDX-License-Identifier: Apache-2.0
"""Functions of one array.

Gradients that are not written here are derived from the function itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from mx_core import expression as X
from mx_core.expression import Traced
from mx_core.operator import Params, SimpleOp, opt, required
from mx_operators.elementwise.make import elementwise as op


class ClipParam(Params):
    """Limits."""

    a_min: float = required("smallest value of the result", runtime=True)
    a_max: float = required("largest value of the result", runtime=True)


class SmoothL1Param(Params):
    """Where the parabola ends."""

    scalar: float = opt(1.0, "σ: the square is used for |x| < 1/σ²", runtime=True)


class QuadraticParam(Params):
    """Coefficients of a·x² + b·x + c."""

    a: float = opt(0.0, "coefficient of the square", runtime=True)
    b: float = opt(0.0, "coefficient of the linear term", runtime=True)
    c: float = opt(0.0, "constant term", runtime=True)


class HardSigmoidParam(Params):
    """Line that is clipped to [0, 1]."""

    alpha: float = opt(0.2, "slope", runtime=True)
    beta: float = opt(0.5, "offset", runtime=True)


class SmoothL1(SimpleOp[SmoothL1Param]):
    """(σx)²/2 for |x| < 1/σ², else |x| − 1/(2σ²).

    Source: Girshick, Fast R-CNN, ICCV 2015, equation 3, with σ as in Faster R-CNN.
    """

    name = "smooth_l1"

    def function(self, p: SmoothL1Param, data: Traced) -> Traced:
        s2 = p.scalar * p.scalar
        inner = 0.5 * s2 * X.square(data)
        return X.where(abs(data) < 1 / s2, inner, abs(data) - 0.5 / s2)

    def gradient_function(self, p: SmoothL1Param, out_grad: Traced, data: Traced) -> Traced:
        """σ²x inside, sign(x) outside."""
        s2 = p.scalar * p.scalar
        return out_grad * X.where(abs(data) < 1 / s2, s2 * data, X.sign(data))


class Quadratic(SimpleOp[QuadraticParam]):
    """y = a·x² + b·x + c, elementwise."""

    name = "_contrib_quadratic"

    def function(self, p: QuadraticParam, data: Traced) -> Traced:
        return (p.a * data + p.b) * data + p.c

    def gradient_function(self, p: QuadraticParam, out_grad: Traced, data: Traced) -> Traced:
        """2·a·x + b."""
        return out_grad * (2 * p.a * data + p.b)


class Clip(SimpleOp[ClipParam]):
    """Values limited to [a_min, a_max]; the gradient passes inside, borders included."""

    name = "clip"

    def function(self, p: ClipParam, data: Traced) -> Traced:
        """The upper limit wins where the limits cross."""
        return X.where(data > p.a_max, p.a_max, X.where(data < p.a_min, p.a_min, data))

    def gradient_function(self, p: ClipParam, out_grad: Traced, data: Traced) -> Traced:
        """out_grad inside, 0 outside."""
        return X.where(X.logical_or(data < p.a_min, data > p.a_max), 0.0, out_grad)


class HardSigmoid(SimpleOp[HardSigmoidParam]):
    """max(0, min(1, alpha·x + beta))."""

    name = "hard_sigmoid"

    def function(self, p: HardSigmoidParam, data: Traced) -> Traced:
        return X.maximum(X.minimum(p.alpha * data + p.beta, 1.0), 0.0)

    def gradient_function(self, p: HardSigmoidParam, out_grad: Traced, output: Traced) -> Traced:
        """alpha where the line is not clipped."""
        return X.where(X.logical_and(output > 0, output < 1), out_grad * p.alpha, 0.0)


def _rint(p: Params, data: Traced) -> Traced:
    below, above = X.floor(data), X.ceil(data)
    return X.where(data - below <= above - data, below, above)


def _flat(name: str, function: Callable[..., Traced], doc: str) -> type[SimpleOp]:
    return op(name, function, doc=doc, differentiable=False)


FUNCTIONS = (
    op("_copy", lambda p, data: data, doc="The same values.", aliases=("identity",)),
    op("negative", lambda p, data: -data, doc="−x."),
    op("abs", lambda p, data: abs(data), doc="|x|."),
    op("reciprocal", lambda p, data: X.reciprocal(data), doc="1/x."),
    op("square", lambda p, data: X.square(data), doc="x²."),
    op("sqrt", lambda p, data: X.sqrt(data), lambda p, out_grad, output: out_grad * 0.5 / output,
       doc="Square root."),
    op("rsqrt", lambda p, data: X.rsqrt(data), doc="1/√x."),
    op("cbrt", lambda p, data: X.cbrt(data), doc="Cube root."),
    op("rcbrt", lambda p, data: X.rcbrt(data), doc="1/∛x."),
    op("exp", lambda p, data: X.exp(data), lambda p, out_grad, output: out_grad * output, doc="eˣ."),
    op("expm1", lambda p, data: X.expm1(data), doc="eˣ − 1."),
    op("log", lambda p, data: X.log(data), doc="Natural logarithm."),
    op("log10", lambda p, data: X.log10(data), doc="Logarithm to base 10."),
    op("log2", lambda p, data: X.log2(data), doc="Logarithm to base 2."),
    op("log1p", lambda p, data: X.log1p(data), doc="log(1 + x)."),
    op("sin", lambda p, data: X.sin(data), doc="Sine of radians."),
    op("cos", lambda p, data: X.cos(data), doc="Cosine of radians."),
    op("tan", lambda p, data: X.tan(data),
       lambda p, out_grad, output: out_grad * (1 + X.square(output)), doc="Tangent of radians."),
    op("arcsin", lambda p, data: X.arcsin(data), doc="Inverse sine."),
    op("arccos", lambda p, data: X.arccos(data), doc="Inverse cosine."),
    op("arctan", lambda p, data: X.arctan(data), doc="Inverse tangent."),
    op("sinh", lambda p, data: X.sinh(data), doc="Hyperbolic sine."),
    op("cosh", lambda p, data: X.cosh(data), doc="Hyperbolic cosine."),
    op("tanh", lambda p, data: X.tanh(data),
       lambda p, out_grad, output: out_grad * (1 - X.square(output)), doc="Hyperbolic tangent."),
    op("arcsinh", lambda p, data: X.arcsinh(data), doc="Inverse hyperbolic sine."),
    op("arccosh", lambda p, data: X.arccosh(data), doc="Inverse hyperbolic cosine."),
    op("arctanh", lambda p, data: X.arctanh(data), doc="Inverse hyperbolic tangent."),
    op("degrees", lambda p, data: data * (180 / math.pi), doc="Radians to degrees."),
    op("radians", lambda p, data: data * (math.pi / 180), doc="Degrees to radians."),
    op("erf", lambda p, data: X.erf(data), doc="Error function."),
    op("erfinv", lambda p, data: X.erfinv(data), doc="Inverse error function."),
    op("gamma", lambda p, data: X.gamma(data), doc="Gamma function."),
    op("gammaln", lambda p, data: X.gammaln(data), doc="Logarithm of |Γ(x)|."),
    op("digamma", lambda p, data: X.digamma(data), doc="Derivative of gammaln."),
    op("sigmoid", lambda p, data: X.sigmoid(data),
       lambda p, out_grad, output: out_grad * output * (1 - output), doc="1/(1 + e⁻ˣ)."),
    op("softsign", lambda p, data: data / (1 + abs(data)),
       lambda p, out_grad, data: out_grad * X.reciprocal(X.square(1 + abs(data))), doc="x/(1 + |x|)."),
    op("relu", lambda p, data: X.relu(data),
       lambda p, out_grad, output: X.where(output > 0, out_grad, 0.0), doc="max(x, 0)."),
    _flat("sign", lambda p, data: X.sign(data), "−1, 0 or 1."),
    _flat("round", lambda p, data: X.round(data), "Nearest integer, halves away from zero."),
    _flat("rint", _rint, "Nearest integer, halves downwards."),
    _flat("ceil", lambda p, data: X.ceil(data), "Smallest integer not below x."),
    _flat("floor", lambda p, data: X.floor(data), "Largest integer not above x."),
    _flat("trunc", lambda p, data: X.trunc(data), "Integer part."),
    _flat("fix", lambda p, data: X.trunc(data), "Nearest integer towards zero."),
    _flat("logical_not", lambda p, data: X.logical_not(data), "1 where x is 0."),
)  # fmt: skip
