# SPDX-License-Identifier: Apache-2.0
"""The Laplace distribution."""

from __future__ import annotations

import math
from typing import Any

from mx_gluon.probability.constraint import Positive, Real
from mx_gluon.probability.distributions.distribution import Distribution
from mx_gluon.probability.values import Value, absolute, expm1, exponential, log, log1p, sign


class Laplace(Distribution):
    """The Laplace distribution.

    Threads: as `Distribution`.

    Parameters
    ----------
    loc : number, NDArray or Symbol
        Mean.
    scale : number, NDArray or Symbol
        Mean absolute deviation.
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
        return -absolute(x - loc) / scale - log(scale) - math.log(2)

    def _cdf(self, x: Value) -> Value:
        loc, scale = self._values("loc", "scale")
        z = (x - loc) / scale
        return 0.5 - 0.5 * sign(z) * expm1(-absolute(z))

    def _icdf(self, p: Value) -> Value:
        loc, scale = self._values("loc", "scale")
        centred = p - 0.5
        return loc - scale * sign(centred) * log1p(-2 * absolute(centred))

    def _entropy(self) -> Value:
        return log(self.scale) + (1 + math.log(2))

    def _mean(self) -> Value:
        return Value(self.loc)

    def _variance(self) -> Value:
        return 2 * Value(self.scale) ** 2

    def _draw(self, zeros: Value) -> Value:
        loc, scale = self._values("loc", "scale")
        return loc + scale * (exponential(zeros) - exponential(zeros))
