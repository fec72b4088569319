# SPDX-License-Identifier: Apache-2.0
"""The half-Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

from mx_gluon.probability.constraint import NonNegative, Positive
from mx_gluon.probability.distributions.distribution import Distribution
from mx_gluon.probability.values import Value, arctan, log, log1p, tan, uniform


class HalfCauchy(Distribution):
    """The absolute value of a Cauchy variable of median 0. Its mean and variance are infinite.

    Threads: as `Distribution`.

    Parameters
    ----------
    scale : number, NDArray or Symbol
        Median.
    """

    has_grad = True
    support = NonNegative()
    arg_constraints = {"scale": Positive()}

    def __init__(self, scale: Any = 1.0, F: Any = None, validate_args: bool | None = None) -> None:
        self.scale = scale
        super().__init__(F, 0, validate_args)

    def _log_prob(self, x: Value) -> Value:
        scale = Value(self.scale)
        return -log1p((x / scale) ** 2) - log(scale) + math.log(2 / math.pi)

    def _cdf(self, x: Value) -> Value:
        return arctan(x / Value(self.scale)) * (2 / math.pi)

    def _icdf(self, p: Value) -> Value:
        return Value(self.scale) * tan(p * (math.pi / 2))

    def _entropy(self) -> Value:
        return log(self.scale) + math.log(2 * math.pi)

    def _mean(self) -> Value:
        return Value(self.scale).zeros() + math.inf

    def _variance(self) -> Value:
        return self._mean()

    def _draw(self, zeros: Value) -> Value:
        return self._icdf(uniform(zeros))
