# SPDX-License-Identifier: Apache-2.0
"""The half-normal distribution."""

from __future__ import annotations

import math
from typing import Any

from mx_gluon.probability.constraint import NonNegative, Positive
from mx_gluon.probability.distributions.distribution import Distribution
from mx_gluon.probability.values import HALF_LOG_2PI, Value, absolute, erf, erfinv, log, normal


class HalfNormal(Distribution):
    """The absolute value of a normal variable of mean 0.

    Threads: as `Distribution`.

    Parameters
    ----------
    scale : number, NDArray or Symbol
        Standard deviation of the normal variable.
    """

    has_grad = True
    support = NonNegative()
    arg_constraints = {"scale": Positive()}

    def __init__(self, scale: Any = 1.0, F: Any = None, validate_args: bool | None = None) -> None:
        self.scale = scale
        super().__init__(F, 0, validate_args)

    def _log_prob(self, x: Value) -> Value:
        scale = Value(self.scale)
        return (x / scale) ** 2 * -0.5 - log(scale) + (math.log(2) - HALF_LOG_2PI)

    def _cdf(self, x: Value) -> Value:
        return erf(x / (Value(self.scale) * math.sqrt(2)))

    def _icdf(self, p: Value) -> Value:
        return Value(self.scale) * math.sqrt(2) * erfinv(p)

    def _entropy(self) -> Value:
        return log(self.scale) + (0.5 + HALF_LOG_2PI - math.log(2))

    def _mean(self) -> Value:
        return Value(self.scale) * math.sqrt(2 / math.pi)

    def _variance(self) -> Value:
        return Value(self.scale) ** 2 * (1 - 2 / math.pi)

    def _draw(self, zeros: Value) -> Value:
        return Value(self.scale) * absolute(normal(zeros))
