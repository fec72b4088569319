# SPDX-License-Identifier: Apache-2.0
"""What distributions of trials with two outcomes share: a probability, given as such or as log-odds."""

from __future__ import annotations

from typing import Any

from mx_core.errors import ArgumentError
from mx_gluon.probability.constraint import Constraint, Real, UnitInterval
from mx_gluon.probability.distributions.exp_family import ExponentialFamily
from mx_gluon.probability.utils import cached_property, logit2prob, prob2logit
from mx_gluon.probability.values import Value, log, log1p, softplus, times, x_log1m_y, x_log_y

#: constraints of the two ways to give a probability
PROBABILITY: dict[str, Constraint] = {"prob": UnitInterval(), "logit": Real()}


def require_one(name: str, prob: Any, logit: Any) -> None:
    """Raises ArgumentError unless exactly one of both is given."""
    if (prob is None) == (logit is None):
        raise ArgumentError(f"[{name}] expected either prob or logit, got prob={prob} and logit={logit}")


class TwoOutcomes(ExponentialFamily):
    """A distribution with `prob`, the probability of 1, or `logit`, its log-odds.

    Threads: as `Distribution`.
    """

    arg_constraints = PROBABILITY

    def _take(self, prob: Any, logit: Any) -> None:
        require_one(type(self).__name__, prob, logit)
        if prob is not None:
            self.prob = prob
        else:
            self.logit = logit
        self._by_logit = prob is None

    @cached_property
    def prob(self) -> Any:
        """The probability of 1."""
        return logit2prob(self.logit)

    @cached_property
    def logit(self) -> Any:
        """log(prob / (1 - prob))."""
        return prob2logit(self.prob)

    def _complement(self) -> Value:
        """The probability of 0."""
        if self._by_logit:
            return Value(logit2prob((-Value(self.logit)).raw))
        return 1 - Value(self.prob)

    def _log_probs(self) -> tuple[Value, Value]:
        """The logarithms of the probabilities of 1 and of 0."""
        if self._by_logit:
            x = Value(self.logit)
            return -softplus(-x), -softplus(x)
        p = Value(self.prob)
        return log(p), log1p(-p)

    def _log_prob_of(self, ones: Any, zeros: Any) -> Value:
        """The logarithm of the probability of so many ones and zeros in one order."""
        if self._by_logit:
            log_one, log_zero = self._log_probs()
            return times(ones, log_one) + times(zeros, log_zero)
        return x_log_y(ones, self.prob) + x_log1m_y(zeros, self.prob)

    def _entropy_of_a_trial(self) -> Value:
        return -self._log_prob_of(self.prob, self._complement())
