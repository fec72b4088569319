# SPDX-License-Identifier: Apache-2.0
"""Student's t distribution."""

from __future__ import annotations

import math
from typing import Any

from mx_gluon.probability.constraint import Positive, Real
from mx_gluon.probability.distributions.distribution import Distribution
from mx_gluon.probability.values import (
    Value,
    as_type,
    digamma,
    doubled,
    exp,
    gammaln,
    log,
    log1p,
    log_gamma,
    normal,
    where,
)


class StudentT(Distribution):
    """Student's t distribution, moved by `loc` and stretched by `scale`.

    Threads: as `Distribution`.

    Parameters
    ----------
    df : number, NDArray or Symbol
        Degrees of freedom. The mean is NaN up to 1; the variance is NaN up to 1 and infinite up to 2.
    loc, scale : number, NDArray or Symbol
    """

    support = Real()
    arg_constraints = {"df": Positive(), "loc": Real(), "scale": Positive()}

    def __init__(
        self, df: Any, loc: Any = 0.0, scale: Any = 1.0, F: Any = None, validate_args: bool | None = None
    ) -> None:
        self.df = df
        self.loc = loc
        self.scale = scale
        super().__init__(F, 0, validate_args)

    def _log_normalizer(self) -> Value:
        df, scale = self._values("df", "scale")
        return gammaln(df * 0.5) - gammaln(df * 0.5 + 0.5) + 0.5 * log(df * math.pi) + log(scale)

    def _log_prob(self, x: Value) -> Value:
        df, loc, scale = self._values("df", "loc", "scale")
        return (df + 1) * -0.5 * log1p(((x - loc) / scale) ** 2 / df) - self._log_normalizer()

    def _entropy(self) -> Value:
        df = Value(self.df)
        half = 0.5 * (df + 1)
        return self._log_normalizer() + half * (digamma(half) - digamma(df * 0.5))

    def _mean(self) -> Value:
        return where(Value(self.df) > 1, self.loc, math.nan)

    def _variance(self) -> Value:
        df, scale = self._values("df", "scale")
        finite = df > 2
        d = where(finite, df, 3.0)
        return where(finite, scale**2 * d / (d - 2), where(df > 1, math.inf, math.nan))

    def _draw(self, zeros: Value) -> Value:
        df, loc, scale = self._values("df", "loc", "scale")
        half = df * 0.5
        scaled = scale * normal(zeros)
        stretch = exp((log(doubled(half)) - log_gamma(half, zeros)) * 0.5)
        return loc + scaled * as_type(stretch, zeros)
