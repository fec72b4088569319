# SPDX-License-Identifier: Apache-2.0
"""Mixtures of distributions of one family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mx_core.errors import ArgumentError
from mx_gluon.probability.distributions.categorical import Categorical
from mx_gluon.probability.distributions.distribution import Distribution, _shape
from mx_gluon.probability.values import (
    Value,
    as_type,
    log_sum_exp,
    one_hot,
    prepended,
    spread,
    times,
    widened,
)


class MixtureSameFamily(Distribution):
    """A mixture whose components lie along the last axis of a distribution's parameters.

    Threads: as `Distribution`.

    Parameters
    ----------
    mixture_dist : Categorical
        Its events are the K components.
    component_dist : Distribution
        Of parameters of shape (..., K), and axes of one outcome after them.
    """

    _computes_wide = False

    def __init__(
        self, mixture_dist: Categorical, component_dist: Distribution, validate_args: bool | None = None
    ) -> None:
        if not isinstance(mixture_dist, Categorical):
            raise ArgumentError(
                f"[MixtureSameFamily] mixture_dist: expected a Categorical, got {mixture_dist!r}"
            )
        if not isinstance(component_dist, Distribution):
            raise ArgumentError(
                f"[MixtureSameFamily] component_dist: expected a Distribution, got {component_dist!r}"
            )
        self.mixture_dist = mixture_dist
        self.component_dist = component_dist
        self._axis = -1 - (component_dist.event_dim or 0)
        super().__init__(mixture_dist.F, component_dist.event_dim, validate_args)

    @property
    def support(self) -> Any:
        """As the components. They check values, if they are told to."""
        return self.component_dist.support

    def _validate_samples(self, value: Any) -> None:
        pass

    def _broadcast(self, shape: tuple[int, ...], inner: int) -> Any:
        return MixtureSameFamily(
            self.mixture_dist._broadcast(shape, inner),
            self.component_dist._broadcast(shape, inner + 1),
            self._validate_args,
        )

    def _over_components(self, per_component: Value) -> Value:
        """The mean over components of what has their axis, weighted with their probabilities."""
        weights = Value(self.mixture_dist.prob)
        for _ in range(self.event_dim or 0):
            weights = weights.expanded(-1)
        return times(weights, per_component).sum(self._axis)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density or probability of a value."""
        densities = Value(self.component_dist.log_prob(self._checked(value).expanded(self._axis).raw))
        weighted = widened(densities) + self.mixture_dist._wide()._log_probs()
        return as_type(log_sum_exp(weighted), self.mixture_dist._like()).raw

    def cdf(self, value: Any) -> Any:
        """The probability of an outcome up to a value.

        Raises
        ------
        NotImplementedError  there is no formula for the components
        """
        inner = self.component_dist.cdf(self._checked(value).expanded(self._axis).raw)
        return self._over_components(Value(inner)).raw

    def _mean(self) -> Value:
        return self._over_components(Value(self.component_dist.mean))

    def _variance(self) -> Value:
        means = Value(self.component_dist.mean)
        between = (means - self._mean().expanded(self._axis)) ** 2
        return self._over_components(Value(self.component_dist.variance) + between)

    def _component_zeros(self) -> Value:
        """Zeros of the shape of the parameters of both, with the axis of the components at the end."""
        return self.mixture_dist._zeros() + self.component_dist._batch_zeros()

    def _batch_zeros(self) -> Value:
        return self._component_zeros().sum(-1)

    def _draw_like(self, batch: Value) -> Value:
        return self._chosen(self._component_zeros() + batch.expanded(-1))

    def _chosen(self, zeros: Value) -> Value:
        """One component's outcome of each row of all components' outcomes."""
        events = Value(self.mixture_dist._sampled(zeros))
        which = one_hot(events, self.mixture_dist.num_events, zeros)
        for _ in range(self.event_dim or 0):
            which = which.expanded(-1)
        return times(which, self.component_dist._draw_like(zeros)).sum(self._axis).held()

    def sample(self, size: int | Sequence[int] | None = None) -> Any:
        """Draws outcomes in the shape of the parameters without the components' axis, or of `size`."""
        zeros = self._component_zeros()
        shape = _shape(size)
        return self._chosen(spread(zeros, shape, self.F, 1) if shape else zeros).raw

    def sample_n(self, size: int | Sequence[int] | None = None) -> Any:
        """Draws that many times the outcomes of `sample()`."""
        return self._chosen(prepended(self._component_zeros(), _shape(size))).raw
