# SPDX-License-Identifier: Apache-2.0
"""The relaxed Bernoulli distribution."""

from __future__ import annotations

from typing import Any

from mx_gluon.probability.constraint import OpenInterval, Real
from mx_gluon.probability.distributions.transformed_distribution import TransformedDistribution
from mx_gluon.probability.distributions.two_outcomes import TwoOutcomes
from mx_gluon.probability.transformation import SigmoidTransform
from mx_gluon.probability.values import Value, exponential, log, softplus


class _LogitRelaxedBernoulli(TwoOutcomes):
    """A logistic variable with the mean `logit`, divided by the temperature."""

    has_grad = True
    support = Real()

    def __init__(
        self, T: Any, prob: Any = None, logit: Any = None, F: Any = None, validate_args: bool | None = None
    ) -> None:
        self.T = T
        self._take(prob, logit)
        super().__init__(F, 0, validate_args)

    def _log_prob(self, x: Value) -> Value:
        difference = Value(self.logit) - x * Value(self.T)
        return log(self.T) + difference - 2 * softplus(difference)

    def _draw(self, zeros: Value) -> Value:
        logistic = log(exponential(zeros)) - log(exponential(zeros))
        return (logistic + Value(self.logit)) / Value(self.T)


class RelaxedBernoulli(TransformedDistribution):
    """Numbers between 0 and 1 that come near to a Bernoulli variable as the temperature falls, with gradients.

    Threads: as `Distribution`.

    Parameters
    ----------
    T : number, NDArray or Symbol
        Temperature.
    prob : number, NDArray or Symbol
        Probability of 1 of the Bernoulli variable. Either it or `logit` is given.
    logit : number, NDArray or Symbol
        log(prob / (1 - prob)).

    Source: Maddison, Mnih and Teh (2017), "The Concrete Distribution".
    """

    support = OpenInterval(0, 1)

    def __init__(
        self, T: Any, prob: Any = None, logit: Any = None, F: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(
            _LogitRelaxedBernoulli(T, prob, logit, F, validate_args), SigmoidTransform(), validate_args
        )

    @property
    def T(self) -> Any:
        """The temperature."""
        return self._relaxed.T

    @property
    def prob(self) -> Any:
        """The probability of 1 of the Bernoulli variable."""
        return self._relaxed.prob

    @property
    def logit(self) -> Any:
        """The log-odds of the Bernoulli variable."""
        return self._relaxed.logit

    @property
    def _relaxed(self) -> Any:
        return self._base_dist
