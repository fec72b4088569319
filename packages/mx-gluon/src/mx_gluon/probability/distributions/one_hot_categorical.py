# SPDX-License-Identifier: Apache-2.0
"""The categorical distribution with one-hot outcomes."""

from __future__ import annotations

from typing import Any

from mx_gluon.probability.constraint import Simplex
from mx_gluon.probability.distributions.categorical import Categorical
from mx_gluon.probability.distributions.several_outcomes import SeveralOutcomes
from mx_gluon.probability.values import Value, one_hot


class OneHotCategorical(SeveralOutcomes):
    """The distribution of an event, as a vector with a 1 in its place.

    Threads: as `Distribution`.

    Parameters
    ----------
    num_events, prob, logit : as in `Categorical`
    """

    has_enumerate_support = True
    support = Simplex()

    def __init__(
        self,
        num_events: int,
        prob: Any = None,
        logit: Any = None,
        F: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self._take(num_events, prob, logit)
        super().__init__(F, 1, validate_args)

    @property
    def _categorical(self) -> Categorical:
        given = {"logit": self.logit} if self._by_logit else {"prob": self.prob}
        return Categorical(self.num_events, F=self.F, validate_args=False, **given)

    def _log_prob(self, x: Value) -> Value:
        return self._log_prob_of(x)

    def _entropy(self) -> Value:
        return self._categorical._entropy()

    def _mean(self) -> Value:
        return Value(self.prob)

    def _variance(self) -> Value:
        prob = Value(self.prob)
        return prob * (1 - prob)

    def _draw(self, zeros: Value) -> Value:
        return one_hot(self._categorical._draw(zeros), self.num_events, zeros)

    def enumerate_support(self) -> Any:
        """One-hot vectors along a new first axis."""
        events = Value(self._categorical.enumerate_support())
        return one_hot(events, self.num_events, self._zeros()).raw
