# SPDX-License-Identifier: Apache-2.0
"""The binomial distribution."""

from __future__ import annotations

import math
from typing import Any

from mx_core.errors import ArgumentError
from mx_gluon.probability.constraint import IntegerInterval
from mx_gluon.probability.distributions.stacking import stacked
from mx_gluon.probability.distributions.two_outcomes import TwoOutcomes
from mx_gluon.probability.values import Value, gammaln, uniform


class Binomial(TwoOutcomes):
    """The number of ones in `n` trials.

    Threads: as `Distribution`.

    Parameters
    ----------
    n : int
        Number of trials. Samples take memory for n numbers each while they are drawn.
    prob : number, NDArray or Symbol
        Probability of 1 in a trial. Either it or `logit` is given.
    logit : number, NDArray or Symbol
        log(prob / (1 - prob)).
    """

    has_enumerate_support = True

    def __init__(
        self,
        n: int = 1,
        prob: Any = None,
        logit: Any = None,
        F: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(n, (int, float)) or n < 0 or n % 1 != 0:
            raise ArgumentError(f"[Binomial] n: expected an integer from 0, got {n!r}")
        self.n = int(n)
        self._take(prob, logit)
        super().__init__(F, 0, validate_args)

    @property
    def support(self) -> Any:
        """Integers from 0 to `n`."""
        return IntegerInterval(0, self.n)

    def _log_prob(self, x: Value) -> Value:
        ways = math.lgamma(self.n + 1) - gammaln(x + 1) - gammaln(self.n + 1 - x)
        return ways + self._log_prob_of(x, self.n - x)

    def _mean(self) -> Value:
        return Value(self.prob) * self.n

    def _variance(self) -> Value:
        return Value(self.prob) * self._complement() * self.n

    def _draw(self, zeros: Value) -> Value:
        if self.n == 0:
            return zeros
        trials = zeros.expanded(-1).apply("broadcast_axis", axis=-1, size=self.n)
        return (uniform(trials) < Value(self.prob).expanded(-1)).sum(-1)

    def enumerate_support(self) -> Any:
        """0 to `n` along a new first axis."""
        return stacked(self._full(self._zeros()), self.n + 1).raw
