# SPDX-License-Identifier: Apache-2.0
"""The Bernoulli distribution."""

from __future__ import annotations

from typing import Any

from mx_gluon.probability.constraint import Boolean
from mx_gluon.probability.distributions.stacking import stacked
from mx_gluon.probability.distributions.two_outcomes import TwoOutcomes
from mx_gluon.probability.values import Value, uniform


class Bernoulli(TwoOutcomes):
    """The distribution of a trial with the outcomes 0 and 1.

    Threads: as `Distribution`.

    Parameters
    ----------
    prob : number, NDArray or Symbol
        Probability of 1. Either it or `logit` is given.
    logit : number, NDArray or Symbol
        log(prob / (1 - prob)).
    """

    has_enumerate_support = True
    support = Boolean()

    def __init__(
        self, prob: Any = None, logit: Any = None, F: Any = None, validate_args: bool | None = None
    ) -> None:
        self._take(prob, logit)
        super().__init__(F, 0, validate_args)

    def _log_prob(self, x: Value) -> Value:
        return self._log_prob_of(x, 1 - x)

    def _entropy(self) -> Value:
        return self._entropy_of_a_trial()

    def _mean(self) -> Value:
        return Value(self.prob)

    def _variance(self) -> Value:
        return Value(self.prob) * self._complement()

    def _draw(self, zeros: Value) -> Value:
        return uniform(zeros) < Value(self.prob)

    def enumerate_support(self) -> Any:
        """0 and 1 along a new first axis."""
        return stacked(self._full(self._zeros()), 2).raw

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.logit,)
