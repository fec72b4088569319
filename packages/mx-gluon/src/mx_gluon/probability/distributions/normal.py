# SPDX-License-Identifier: Apache-2.0
"""The normal distribution."""

from __future__ import annotations

import math
from typing import Any

from mx_gluon.probability.constraint import Positive, Real
from mx_gluon.probability.distributions.exp_family import ExponentialFamily
from mx_gluon.probability.values import HALF_LOG_2PI, Value, erf, erfinv, log, normal


class Normal(ExponentialFamily):
    """The normal distribution.

    Threads: as `Distribution`.

    Parameters
    ----------
    loc : number, NDArray or Symbol
        Mean.
    scale : number, NDArray or Symbol
        Standard deviation.

    Examples
    --------
    >>> from mx import nd
    >>> Normal(nd.array([0.0, 1.0]), 2.0).log_prob(nd.array([1.0, 1.0]))
    """

    has_grad = True
    support = Real()
    arg_constraints = {"loc": Real(), "scale": Positive()}

    def __init__(
        self, loc: Any = 0.0, scale: Any = 1.0, F: Any = None, validate_args: bool | None = None
    ) -> None:
        self.loc = loc
        self.scale = scale
        super().__init__(F, 0, validate_args)

    def _log_prob(self, x: Value) -> Value:
        loc, scale = self._values("loc", "scale")
        return ((x - loc) / scale) ** 2 * -0.5 - log(scale) - HALF_LOG_2PI

    def _cdf(self, x: Value) -> Value:
        loc, scale = self._values("loc", "scale")
        return 0.5 * (1 + erf((x - loc) / (scale * math.sqrt(2))))

    def _icdf(self, p: Value) -> Value:
        loc, scale = self._values("loc", "scale")
        return loc + scale * math.sqrt(2) * erfinv(2 * p - 1)

    def _entropy(self) -> Value:
        return log(self.scale) + (0.5 + HALF_LOG_2PI)

    def _mean(self) -> Value:
        return Value(self.loc)

    def _variance(self) -> Value:
        return Value(self.scale) ** 2

    def _draw(self, zeros: Value) -> Value:
        loc, scale = self._values("loc", "scale")
        return loc + scale * normal(zeros)

    @property
    def stddev(self) -> Any:
        """The standard deviation."""
        return self.scale

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        loc, scale = self._values("loc", "scale")
        return (loc / scale**2).raw, (-0.5 / scale**2).raw
