# SPDX-License-Identifier: Apache-2.0
"""The Gumbel distribution."""

from __future__ import annotations

import math
from typing import Any

from mx_gluon.probability.constraint import Positive, Real
from mx_gluon.probability.distributions.distribution import Distribution
from mx_gluon.probability.values import EULER_GAMMA, Value, exp, exponential, log


class Gumbel(Distribution):
    """The Gumbel distribution, that of the largest of many.

    Threads: as `Distribution`.

    Parameters
    ----------
    loc : number, NDArray or Symbol
        Mode.
    scale : number, NDArray or Symbol
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
        z = (loc - x) / scale
        return z - exp(z) - log(scale)

    def _cdf(self, x: Value) -> Value:
        loc, scale = self._values("loc", "scale")
        return exp(-exp((loc - x) / scale))

    def _icdf(self, p: Value) -> Value:
        loc, scale = self._values("loc", "scale")
        return loc - scale * log(-log(p))

    def _entropy(self) -> Value:
        return log(self.scale) + (1 + EULER_GAMMA)

    def _mean(self) -> Value:
        loc, scale = self._values("loc", "scale")
        return loc + scale * EULER_GAMMA

    def _variance(self) -> Value:
        return Value(self.scale) ** 2 * (math.pi**2 / 6)

    def _draw(self, zeros: Value) -> Value:
        loc, scale = self._values("loc", "scale")
        return loc - scale * log(exponential(zeros))
