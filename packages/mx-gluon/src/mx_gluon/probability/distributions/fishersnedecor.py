# SPDX-License-Identifier: Apache-2.0
"""Fisher's and Snedecor's F distribution."""

from __future__ import annotations

import math
from typing import Any

from mx_gluon.probability.constraint import Positive
from mx_gluon.probability.distributions.distribution import Distribution
from mx_gluon.probability.values import Value, as_type, digamma, exp, gammaln, log, log1p, log_gamma, where


class FisherSnedecor(Distribution):
    """The F distribution: the ratio of two chi-squared variables, each divided by its degrees of freedom.

    Threads: as `Distribution`.

    Parameters
    ----------
    df1, df2 : number, NDArray or Symbol
        Degrees of freedom. The mean is NaN for `df2` up to 2, the variance up to 4.
    """

    support = Positive()
    arg_constraints = {"df1": Positive(), "df2": Positive()}

    def __init__(self, df1: Any, df2: Any, F: Any = None, validate_args: bool | None = None) -> None:
        self.df1 = df1
        self.df2 = df2
        super().__init__(F, 0, validate_args)

    def _log_beta(self) -> Value:
        a, b = self._halves()
        return gammaln(a) + gammaln(b) - gammaln(a + b)

    def _halves(self) -> tuple[Value, Value]:
        return Value(self.df1) * 0.5, Value(self.df2) * 0.5

    def _log_prob(self, x: Value) -> Value:
        a, b = self._halves()
        ratio = a / b
        return a * log(ratio) + (a - 1) * log(x) - (a + b) * log1p(ratio * x) - self._log_beta()

    def _entropy(self) -> Value:
        a, b = self._halves()
        return (
            log(b / a)
            + self._log_beta()
            + (1 - a) * digamma(a)
            - (1 + b) * digamma(b)
            + (a + b) * digamma(a + b)
        )

    def _mean(self) -> Value:
        df2 = Value(self.df2) + Value(self.df1).zeros()
        finite = df2 > 2
        return where(finite, df2 / where(finite, df2 - 2, 1.0), math.nan)

    def _variance(self) -> Value:
        df1, df2 = self._values("df1", "df2")
        finite = df2 > 4
        d = where(finite, df2, 5.0)
        return where(finite, 2 * d**2 * (df1 + d - 2) / (df1 * (d - 2) ** 2 * (d - 4)), math.nan)

    def _draw(self, zeros: Value) -> Value:
        a, b = self._halves()
        return as_type(exp(log_gamma(a, zeros) - log_gamma(b, zeros)), zeros) * (b / a)
