# SPDX-License-Identifier: Apache-2.0
"""The beta distribution."""

from __future__ import annotations

from typing import Any

from mx_gluon.probability.constraint import OpenInterval, Positive
from mx_gluon.probability.distributions.exp_family import ExponentialFamily
from mx_gluon.probability.values import Value, as_type, digamma, gammaln, log, log1p, log_gamma, sigmoid


class Beta(ExponentialFamily):
    """The beta distribution, of numbers between 0 and 1.

    Threads: as `Distribution`.

    Parameters
    ----------
    alpha, beta : number, NDArray or Symbol
        The density is proportional to x**(alpha - 1) * (1 - x)**(beta - 1).
    """

    support = OpenInterval(0, 1)
    arg_constraints = {"alpha": Positive(), "beta": Positive()}

    def __init__(self, alpha: Any, beta: Any, F: Any = None, validate_args: bool | None = None) -> None:
        self.alpha = alpha
        self.beta = beta
        super().__init__(F, 0, validate_args)

    def _log_beta(self) -> Value:
        a, b = self._values("alpha", "beta")
        return gammaln(a) + gammaln(b) - gammaln(a + b)

    def _log_prob(self, x: Value) -> Value:
        a, b = self._values("alpha", "beta")
        return (a - 1) * log(x) + (b - 1) * log1p(-x) - self._log_beta()

    def _entropy(self) -> Value:
        a, b = self._values("alpha", "beta")
        return self._log_beta() - (a - 1) * digamma(a) - (b - 1) * digamma(b) + (a + b - 2) * digamma(a + b)

    def _mean(self) -> Value:
        a, b = self._values("alpha", "beta")
        return a / (a + b)

    def _variance(self) -> Value:
        a, b = self._values("alpha", "beta")
        return a * b / ((a + b) ** 2 * (a + b + 1))

    def _draw(self, zeros: Value) -> Value:
        # x / (x + y) of gamma numbers x and y
        return as_type(sigmoid(log_gamma(self.alpha, zeros) - log_gamma(self.beta, zeros)), zeros)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (Value(self.alpha) - 1).raw, (Value(self.beta) - 1).raw
