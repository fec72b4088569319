# SPDX-License-Identifier: Apache-2.0
"""The categorical distribution."""

from __future__ import annotations

from typing import Any

from mx_gluon.probability.constraint import IntegerHalfOpenInterval
from mx_gluon.probability.distributions.several_outcomes import SeveralOutcomes
from mx_gluon.probability.distributions.stacking import stacked
from mx_gluon.probability.values import Value, exponential, log, namespace, widened


class Categorical(SeveralOutcomes):
    """The distribution of an event from 0 to `num_events` - 1.

    Threads: as `Distribution`.

    Parameters
    ----------
    num_events : int
    prob : NDArray or Symbol of shape (..., num_events)
        Probability of each event. Either it or `logit` is given.
    logit : NDArray or Symbol of shape (..., num_events)
        Logarithms of probabilities. They need not be normalised.
    """

    has_enumerate_support = True

    def __init__(
        self,
        num_events: int,
        prob: Any = None,
        logit: Any = None,
        F: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self._take(num_events, prob, logit)
        super().__init__(F, 0, validate_args)

    @property
    def support(self) -> Any:
        """Integers from 0 to less than `num_events`."""
        return IntegerHalfOpenInterval(0, self.num_events)

    def _log_prob(self, x: Value) -> Value:
        rows = self._log_probs() if self._by_logit else Value(self.prob)
        index = x + rows.zeros().sum(-1)
        picked = Value(namespace(index.raw).pick((rows + index.expanded(-1).zeros()).raw, index.raw, axis=-1))
        picked = picked + index * 0.0  # NaN of NaN
        return picked if self._by_logit else log(picked)

    def _entropy(self) -> Value:
        return -self._log_prob_of(self.prob)

    def _draw(self, zeros: Value) -> Value:
        # the least of exponential numbers divided by the probabilities
        scores = self._log_probs() - log(exponential(zeros))
        return scores.apply("argmax", axis=-1)

    def _rounded(self, drawn: Value, zeros: Value) -> Value:
        return drawn  # types of 16 bits have no room for many events

    def enumerate_support(self) -> Any:
        """0 to `num_events` - 1 along a new first axis."""
        return stacked(widened(self._zeros()).sum(-1), self.num_events).raw
