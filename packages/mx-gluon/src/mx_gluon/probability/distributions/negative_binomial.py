# SPDX-License-Identifier: Apache-2.0
"""The negative binomial distribution."""

from __future__ import annotations

from typing import Any

from mx_gluon.probability.constraint import NonNegativeInteger, Positive
from mx_gluon.probability.distributions.two_outcomes import PROBABILITY, TwoOutcomes
from mx_gluon.probability.values import Value, gamma, gammaln, poisson


class NegativeBinomial(TwoOutcomes):
    """The number of zeros before the n-th one.

    MXNet's density is this one; its mean, variance and samples are those of the number of ones before the n-th zero.
    Here all belong to the density.

    Threads: as `Distribution`.

    Parameters
    ----------
    n : number, NDArray or Symbol
        Number of ones; it need not be an integer.
    prob : number, NDArray or Symbol
        Probability of 1 in a trial. Either it or `logit` is given.
    logit : number, NDArray or Symbol
        log(prob / (1 - prob)).
    """

    support = NonNegativeInteger()
    arg_constraints = {"n": Positive(), **PROBABILITY}

    def __init__(
        self,
        n: Any,
        prob: Any = None,
        logit: Any = None,
        F: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self.n = n
        self._take(prob, logit)
        super().__init__(F, 0, validate_args)

    def _log_prob(self, x: Value) -> Value:
        n = Value(self.n)
        return gammaln(x + n) - gammaln(x + 1) - gammaln(n) + self._log_prob_of(n, x)

    def _odds(self) -> Value:
        """Zeros per one."""
        return self._complement() / Value(self.prob)

    def _mean(self) -> Value:
        return self._odds() * Value(self.n)

    def _variance(self) -> Value:
        return self._mean() / Value(self.prob)

    def _draw(self, zeros: Value) -> Value:
        return poisson(gamma(self.n, zeros) * self._odds(), zeros)
