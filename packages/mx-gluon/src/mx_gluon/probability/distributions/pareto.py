# SPDX-License-Identifier: Apache-2.0
"""The Pareto distribution."""

from __future__ import annotations

import math
from typing import Any

from mx_gluon.probability.constraint import GreaterThanEq, Positive
from mx_gluon.probability.distributions.distribution import Distribution
from mx_gluon.probability.values import Value, exp, expm1, exponential, log, log1p, where


class Pareto(Distribution):
    """The Pareto distribution, of numbers from `scale`.

    Threads: as `Distribution`.

    Parameters
    ----------
    alpha : number, NDArray or Symbol
        The exponent; the mean is infinite up to 1, the variance up to 2.
    scale : number, NDArray or Symbol
        The least outcome.
    """

    has_grad = True
    arg_constraints = {"alpha": Positive(), "scale": Positive()}

    def __init__(
        self, alpha: Any, scale: Any = 1.0, F: Any = None, validate_args: bool | None = None
    ) -> None:
        self.alpha = alpha
        self.scale = scale
        super().__init__(F, 0, validate_args)

    @property
    def support(self) -> Any:
        """From `scale`."""
        return GreaterThanEq(self.scale)

    def _log_prob(self, x: Value) -> Value:
        alpha, scale = self._values("alpha", "scale")
        return log(alpha) + alpha * log(scale) - (alpha + 1) * log(x)

    def _cdf(self, x: Value) -> Value:
        alpha, scale = self._values("alpha", "scale")
        return -expm1(alpha * log(scale / x))

    def _icdf(self, p: Value) -> Value:
        alpha, scale = self._values("alpha", "scale")
        return scale * exp(-log1p(-p) / alpha)

    def _entropy(self) -> Value:
        alpha, scale = self._values("alpha", "scale")
        return log(scale / alpha) + 1 + 1 / alpha

    def _mean(self) -> Value:
        alpha, scale = self._values("alpha", "scale")
        finite = alpha > 1
        return where(finite, alpha * scale / where(finite, alpha - 1, 1.0), math.inf)

    def _variance(self) -> Value:
        alpha, scale = self._values("alpha", "scale")
        finite = alpha > 2
        a = where(finite, alpha, 3.0)
        return where(finite, a * scale**2 / ((a - 1) ** 2 * (a - 2)), math.inf)

    def _draw(self, zeros: Value) -> Value:
        alpha, scale = self._values("alpha", "scale")
        return scale * exp(exponential(zeros) / alpha)
