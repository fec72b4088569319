# SPDX-License-Identifier: Apache-2.0
"""The Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

from mx_gluon.probability.constraint import Positive, Real
from mx_gluon.probability.distributions.distribution import Distribution
from mx_gluon.probability.values import Value, arctan, log, log1p, tan, uniform


class Cauchy(Distribution):
    """The Cauchy distribution, which has no mean and no variance: both are NaN.

    Threads: as `Distribution`.

    Parameters
    ----------
    loc : number, NDArray or Symbol
        Median.
    scale : number, NDArray or Symbol
        Half the width at half of the maximum.
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
        return -log1p(((x - loc) / scale) ** 2) - log(scale) - math.log(math.pi)

    def _cdf(self, x: Value) -> Value:
        loc, scale = self._values("loc", "scale")
        return arctan((x - loc) / scale) * (1 / math.pi) + 0.5

    def _icdf(self, p: Value) -> Value:
        loc, scale = self._values("loc", "scale")
        return loc + scale * tan(math.pi * (p - 0.5))

    def _entropy(self) -> Value:
        return log(self.scale) + math.log(4 * math.pi)

    def _mean(self) -> Value:
        loc, scale = self._values("loc", "scale")
        return (loc + scale).zeros() + math.nan

    def _variance(self) -> Value:
        return self._mean()

    def _draw(self, zeros: Value) -> Value:
        return self._icdf(uniform(zeros))
