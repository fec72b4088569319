# SPDX-License-Identifier: Apache-2.0
"""The geometric distribution."""

from __future__ import annotations

from typing import Any

from mx_gluon.probability.constraint import NonNegativeInteger
from mx_gluon.probability.distributions.two_outcomes import TwoOutcomes
from mx_gluon.probability.values import Value, exponential, floor


class Geometric(TwoOutcomes):
    """The number of zeros before the first one.

    Threads: as `Distribution`.

    Parameters
    ----------
    prob : number, NDArray or Symbol
        Probability of 1 in a trial. Either it or `logit` is given.
    logit : number, NDArray or Symbol
        log(prob / (1 - prob)).
    """

    support = NonNegativeInteger()

    def __init__(
        self, prob: Any = None, logit: Any = None, F: Any = None, validate_args: bool | None = None
    ) -> None:
        self._take(prob, logit)
        super().__init__(F, 0, validate_args)

    def _log_prob(self, x: Value) -> Value:
        return self._log_prob_of(1, x)

    def _entropy(self) -> Value:
        return self._entropy_of_a_trial() / Value(self.prob)

    def _mean(self) -> Value:
        return self._complement() / Value(self.prob)

    def _variance(self) -> Value:
        return self._complement() / Value(self.prob) ** 2

    def _draw(self, zeros: Value) -> Value:
        return floor(exponential(zeros) / -self._log_probs()[1])
