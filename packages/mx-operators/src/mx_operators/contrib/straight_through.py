# SPDX-License-Identifier: Apache-2.0
"""Functions with a gradient that is not their derivative: straight-through estimators, gradient reversal.

Source: Bengio, Léonard, Courville, Estimating or Propagating Gradients Through Stochastic Neurons,
2013; Ganin and Lempitsky, Unsupervised Domain Adaptation by Backpropagation, ICML 2015.
"""

from __future__ import annotations

from mx_core import expression as X
from mx_core.expression import Traced
from mx_core.operator import NoParams, Params, SimpleOp, opt


class GradientMultiplierParam(Params):
    """The factor."""

    scalar: float = opt(1.0, "factor of the gradient", runtime=True)
    is_int: bool = opt(True, "accepted for compatibility")


class GradientMultiplier(SimpleOp[GradientMultiplierParam]):
    """data; its gradient is that of the output times `scalar` (−1 reverses it)."""

    name = "_contrib_gradientmultiplier"
    custom_gradient = True

    def function(self, p: GradientMultiplierParam, data: Traced) -> Traced:
        return data

    def gradient_function(self, p: GradientMultiplierParam, out_grad: Traced) -> Traced:
        return out_grad * p.scalar


class _StraightThrough(SimpleOp):
    custom_gradient = True

    def gradient_function(self, p: NoParams, out_grad: Traced) -> Traced:
        """As if it were the identity."""
        return out_grad


class RoundStraightThrough(_StraightThrough):
    """The nearest integer, halves away from zero; the gradient passes unchanged."""

    name = "_contrib_round_ste"
    aliases = ("_sparse__contrib_round_ste",)

    def function(self, p: NoParams, data: Traced) -> Traced:
        return X.round(data)


class SignStraightThrough(_StraightThrough):
    """−1, 0 or 1, and 0 for NaN; the gradient passes unchanged."""

    name = "_contrib_sign_ste"
    aliases = ("_sparse__contrib_sign_ste",)

    def function(self, p: NoParams, data: Traced) -> Traced:
        return X.where(X.isnan(data), 0.0, X.sign(data))
