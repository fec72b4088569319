# SPDX-License-Identifier: Apache-2.0
"""The uniform distribution."""

from __future__ import annotations

from typing import Any

from mx_gluon.probability.constraint import Interval, Real
from mx_gluon.probability.distributions.distribution import Distribution
from mx_gluon.probability.values import Value, log, uniform


class Uniform(Distribution):
    """The uniform distribution from `low` to `high`.

    Threads: as `Distribution`.

    Parameters
    ----------
    low, high : number, NDArray or Symbol
    """

    has_grad = True
    arg_constraints = {"low": Real(), "high": Real()}

    def __init__(
        self, low: Any = 0.0, high: Any = 1.0, F: Any = None, validate_args: bool | None = None
    ) -> None:
        self.low = low
        self.high = high
        super().__init__(F, 0, validate_args)

    @property
    def support(self) -> Any:
        """From `low` to `high`."""
        return Interval(self.low, self.high)

    def _width(self) -> Value:
        return Value(self.high) - Value(self.low)

    def _log_prob(self, x: Value) -> Value:
        return x * 0.0 - log(self._width())  # NaN of NaN

    def _cdf(self, x: Value) -> Value:
        return (x - Value(self.low)) / self._width()

    def _icdf(self, p: Value) -> Value:
        return p * self._width() + Value(self.low)

    def _entropy(self) -> Value:
        return log(self._width())

    def _mean(self) -> Value:
        return (Value(self.low) + Value(self.high)) * 0.5

    def _variance(self) -> Value:
        return self._width() ** 2 * (1 / 12)

    def _draw(self, zeros: Value) -> Value:
        return self._icdf(uniform(zeros))
