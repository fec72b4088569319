# SPDX-License-Identifier: Apache-2.0
"""The relaxed categorical distribution with one-hot outcomes."""

from __future__ import annotations

import math
from typing import Any

from mx_gluon.probability.constraint import Real, Simplex
from mx_gluon.probability.distributions.several_outcomes import SeveralOutcomes
from mx_gluon.probability.distributions.transformed_distribution import TransformedDistribution
from mx_gluon.probability.transformation import ExpTransform
from mx_gluon.probability.values import (
    Value,
    at_least,
    exponential,
    log,
    log_softmax,
    log_sum_exp,
    smallest,
)


class _LogRelaxedOneHotCategorical(SeveralOutcomes):
    """The logarithm of a relaxed one-hot categorical variable."""

    has_grad = True
    support = Real()

    def __init__(
        self,
        T: Any,
        num_events: int,
        prob: Any = None,
        logit: Any = None,
        F: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self.T = T
        self._take(num_events, prob, logit)
        super().__init__(F, 1, validate_args)

    def _log_prob(self, x: Value) -> Value:
        scores = self._log_probs() - x * Value(self.T)
        normalised = (scores - log_sum_exp(scores, keepdims=True)).sum(-1)
        return normalised + (math.lgamma(self.num_events) + (self.num_events - 1) * log(self.T))

    def _draw(self, zeros: Value) -> Value:
        return log_softmax((self._log_probs() - log(exponential(zeros))) / Value(self.T))


class RelaxedOneHotCategorical(TransformedDistribution):
    """Vectors with a sum of 1 that come near to one-hot vectors as the temperature falls, with gradients.

    Threads: as `Distribution`.

    Parameters
    ----------
    T : number
        Temperature.
    num_events, prob, logit : as in `Categorical`

    Source: Maddison, Mnih and Teh (2017), "The Concrete Distribution".
    """

    support = Simplex()

    def __init__(
        self,
        T: Any,
        num_events: int,
        prob: Any = None,
        logit: Any = None,
        F: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        base = _LogRelaxedOneHotCategorical(T, num_events, prob, logit, F, validate_args)
        super().__init__(base, ExpTransform(), validate_args)

    def _forward(self, x: Any) -> Any:
        drawn = Value(super()._forward(x))
        return at_least(drawn, smallest(drawn)).raw

    @property
    def T(self) -> Any:
        """The temperature."""
        return self._relaxed.T

    @property
    def num_events(self) -> int:
        """The number of events."""
        return int(self._relaxed.num_events)

    @property
    def prob(self) -> Any:
        """The probabilities of the categorical variable."""
        return self._relaxed.prob

    @property
    def logit(self) -> Any:
        """The logarithms of the probabilities of the categorical variable."""
        return self._relaxed.logit

    @property
    def _relaxed(self) -> Any:
        return self._base_dist
