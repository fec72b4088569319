# SPDX-License-Identifier: Apache-2.0
"""The Weibull distribution."""

from __future__ import annotations

from typing import Any

from mx_gluon.probability.constraint import Positive
from mx_gluon.probability.distributions.distribution import Distribution
from mx_gluon.probability.values import EULER_GAMMA, Value, exp, expm1, exponential, gammaln, log, log1p


class Weibull(Distribution):
    """The Weibull distribution.

    Threads: as `Distribution`.

    Parameters
    ----------
    concentration : number, NDArray or Symbol
        The exponent, also called shape.
    scale : number, NDArray or Symbol
    """

    has_grad = True
    support = Positive()
    arg_constraints = {"concentration": Positive(), "scale": Positive()}

    def __init__(
        self, concentration: Any, scale: Any = 1.0, F: Any = None, validate_args: bool | None = None
    ) -> None:
        self.concentration = concentration
        self.scale = scale
        super().__init__(F, 0, validate_args)

    def _log_prob(self, x: Value) -> Value:
        k, scale = self._values("concentration", "scale")
        z = log(x / scale)
        return log(k) - log(scale) + (k - 1) * z - exp(k * z)

    def _cdf(self, x: Value) -> Value:
        k, scale = self._values("concentration", "scale")
        return -expm1(-((x / scale) ** k))

    def _icdf(self, p: Value) -> Value:
        k, scale = self._values("concentration", "scale")
        return scale * (-log1p(-p)) ** (1 / k)

    def _entropy(self) -> Value:
        k, scale = self._values("concentration", "scale")
        return EULER_GAMMA * (1 - 1 / k) + log(scale / k) + 1

    def _moment(self, order: int) -> Value:
        k, scale = self._values("concentration", "scale")
        return exp(gammaln(1 + order / k)) * scale**order

    def _mean(self) -> Value:
        return self._moment(1)

    def _variance(self) -> Value:
        return self._moment(2) - self._moment(1) ** 2

    def _draw(self, zeros: Value) -> Value:
        k, scale = self._values("concentration", "scale")
        return scale * exponential(zeros) ** (1 / k)
