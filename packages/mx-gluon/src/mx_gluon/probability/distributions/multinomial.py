# SPDX-License-Identifier: Apache-2.0
"""The multinomial distribution."""

from __future__ import annotations

from typing import Any

from mx_core.errors import ArgumentError
from mx_gluon.probability.constraint import IntegerInterval
from mx_gluon.probability.distributions.one_hot_categorical import OneHotCategorical
from mx_gluon.probability.distributions.several_outcomes import SeveralOutcomes
from mx_gluon.probability.values import Value, gammaln, prepended


class Multinomial(SeveralOutcomes):
    """How often each event comes in `total_count` trials.

    Threads: as `Distribution`.

    Parameters
    ----------
    num_events, prob, logit : as in `Categorical`
    total_count : int
        Number of trials. Samples take memory for so many vectors while they are drawn.
    """

    def __init__(
        self,
        num_events: int,
        prob: Any = None,
        logit: Any = None,
        total_count: int = 1,
        F: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, (int, float)) or total_count < 0 or total_count % 1 != 0:
            raise ArgumentError(f"[Multinomial] total_count: expected an integer from 0, got {total_count!r}")
        self.total_count = int(total_count)
        self._take(num_events, prob, logit)
        super().__init__(F, 1, validate_args)

    @property
    def support(self) -> Any:
        """Integers from 0 to `total_count`."""
        return IntegerInterval(0, self.total_count)

    @property
    def _categorical(self) -> OneHotCategorical:
        given = {"logit": self.logit} if self._by_logit else {"prob": self.prob}
        return OneHotCategorical(self.num_events, F=self.F, validate_args=False, **given)

    def _log_prob(self, x: Value) -> Value:
        ways = gammaln(x.sum(-1) + 1) - gammaln(x + 1).sum(-1)
        return ways + self._log_prob_of(x)

    def _mean(self) -> Value:
        return Value(self.prob) * self.total_count

    def _variance(self) -> Value:
        prob = Value(self.prob)
        return prob * (1 - prob) * self.total_count

    def _draw(self, zeros: Value) -> Value:
        if self.total_count == 0:
            return zeros
        return self._categorical._draw(prepended(zeros, (self.total_count,))).sum(0)
