# SPDX-License-Identifier: Apache-2.0
"""Elementwise operators: an expression for the function, one for the gradient, nothing else.

Every device computes them, through the generator that its package brings.
"""

from __future__ import annotations

import mx_core.expression as X
from mx_core.expression import Traced
from mx_core.operator import Params, SimpleOp, opt


class QuadraticParam(Params):
    """Coefficients of a·x² + b·x + c."""

    a: float = opt(0.0, "coefficient of the square", runtime=True)
    b: float = opt(0.0, "coefficient of the linear term", runtime=True)
    c: float = opt(0.0, "constant term", runtime=True)


class Quadratic(SimpleOp[QuadraticParam]):
    """y = a·x² + b·x + c, elementwise."""

    name = "quadratic"

    def function(self, p: QuadraticParam, data: Traced) -> Traced:
        """Horner's scheme: two multiplications."""
        return (p.a * data + p.b) * data + p.c

    def gradient_function(self, p: QuadraticParam, out_grad: Traced, data: Traced) -> Traced:
        """2·a·x + b; the argument `data` says that backward keeps the input."""
        return out_grad * (2 * p.a * data + p.b)


class PseudoHuberParam(Params):
    """Where the loss turns from a parabola into a line."""

    delta: float = opt(1.0, "slope of the line, and the |x| at which the parabola ends", runtime=True)


class PseudoHuber(SimpleOp[PseudoHuberParam]):
    """δ²·(√(1 + (x/δ)²) − 1), elementwise: x²/2 near 0, δ·|x| far away, smooth between.

    Source: Charbonnier et al., "Deterministic edge-preserving regularization in computed imaging",
    IEEE Transactions on Image Processing 6 (1997).
    """

    name = "pseudo_huber"

    def function(self, p: PseudoHuberParam, data: Traced) -> Traced:
        """δ·(√(δ² + x²) − δ), in a form that does not cancel near 0."""
        return data * data / (X.sqrt(1 + X.square(data / p.delta)) + 1)

    # No gradient_function: it is derived from the expression.
