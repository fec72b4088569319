# SPDX-License-Identifier: Apache-2.0
"""The Dirichlet distribution."""

from __future__ import annotations

from typing import Any

from mx_gluon.probability.constraint import Positive, Simplex
from mx_gluon.probability.distributions.exp_family import ExponentialFamily
from mx_gluon.probability.values import (
    Value,
    as_type,
    at_least,
    digamma,
    exp,
    gammaln,
    log,
    log_gamma,
    log_softmax,
    smallest,
)


class Dirichlet(ExponentialFamily):
    """The Dirichlet distribution, of vectors of numbers from 0 whose sum is 1.

    Threads: as `Distribution`.

    Parameters
    ----------
    alpha : NDArray or Symbol of shape (..., K)
        The density is proportional to the product of x_i**(alpha_i - 1).
    """

    support = Simplex()
    arg_constraints = {"alpha": Positive()}
    _event_axes = 1

    def __init__(self, alpha: Any, F: Any = None, validate_args: bool | None = None) -> None:
        self.alpha = alpha
        super().__init__(F, 1, validate_args)

    def _log_normalizer(self) -> Value:
        alpha = Value(self.alpha)
        return gammaln(alpha).sum(-1) - gammaln(alpha.sum(-1))

    def _log_prob(self, x: Value) -> Value:
        return ((Value(self.alpha) - 1) * log(x)).sum(-1) - self._log_normalizer()

    def _entropy(self) -> Value:
        alpha = Value(self.alpha)
        total = alpha.sum(-1)
        return (
            self._log_normalizer()
            + (total - alpha.ones().sum(-1)) * digamma(total)
            - ((alpha - 1) * digamma(alpha)).sum(-1)
        )

    def _mean(self) -> Value:
        alpha = Value(self.alpha)
        return alpha / alpha.sum(-1, keepdims=True)

    def _variance(self) -> Value:
        alpha = Value(self.alpha)
        total = alpha.sum(-1, keepdims=True)
        return alpha * (total - alpha) / (total**2 * (total + 1))

    def _draw(self, zeros: Value) -> Value:
        # gamma numbers divided by their sum
        return as_type(exp(log_softmax(log_gamma(self.alpha, zeros))), zeros)

    def _rounded(self, drawn: Value, zeros: Value) -> Value:
        rounded = super()._rounded(drawn, zeros)
        return at_least(rounded, smallest(rounded))

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return ((Value(self.alpha) - 1).raw,)
