# SPDX-License-Identifier: Apache-2.0
"""What distributions over several events share: probabilities along the last axis, given as such or as log-odds."""

from __future__ import annotations

from typing import Any

from mx_core.errors import ArgumentError
from mx_gluon.probability.constraint import Constraint, Real, Simplex
from mx_gluon.probability.distributions.distribution import Distribution
from mx_gluon.probability.distributions.two_outcomes import require_one
from mx_gluon.probability.utils import cached_property, logit2prob, prob2logit
from mx_gluon.probability.values import Value, log_softmax, times, x_log_y

#: constraints of the two ways to give probabilities
PROBABILITIES: dict[str, Constraint] = {"prob": Simplex(), "logit": Real()}


class SeveralOutcomes(Distribution):
    """A distribution with `prob`, probabilities along the last axis, or `logit`, logarithms of what is proportional.

    Threads: as `Distribution`.
    """

    arg_constraints = PROBABILITIES
    _event_axes = 1

    def _take(self, num_events: int, prob: Any, logit: Any) -> None:
        name = type(self).__name__
        if not isinstance(num_events, (int, float)) or num_events < 1:
            raise ArgumentError(f"[{name}] num_events: expected an integer from 1, got {num_events!r}")
        require_one(name, prob, logit)
        self.num_events = int(num_events)
        given = logit if prob is None else prob
        extent = getattr(given, "shape", (num_events,))[-1]
        if not callable(extent) and extent != num_events:
            raise ArgumentError(
                f"[{name}] expected num_events={num_events} numbers along the last axis, got shape {given.shape}"
            )
        if prob is not None:
            self.prob = prob
        else:
            self.logit = logit
        self._by_logit = prob is None

    @cached_property
    def prob(self) -> Any:
        """The probability of each event."""
        return logit2prob(self.logit, False)

    @cached_property
    def logit(self) -> Any:
        """The logarithm of the probability of each event, or what was given."""
        return prob2logit(self.prob, False)

    def _log_probs(self) -> Value:
        """Logarithms of the probabilities."""
        logit = Value(self.logit)
        return log_softmax(logit) if self._by_logit else logit

    def _log_prob_of(self, counts: Any) -> Value:
        """The logarithm of the probability of so many of each event in one order."""
        return self._log_probs_times(counts).sum(-1)

    def _log_probs_times(self, counts: Any) -> Value:
        """Each event's part of it."""
        return times(counts, self._log_probs()) if self._by_logit else x_log_y(counts, self.prob)
