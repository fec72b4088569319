# SPDX-License-Identifier: Apache-2.0
"""Several distributions as one of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mx_core.errors import ArgumentError
from mx_gluon.probability.distributions.distribution import Distribution
from mx_gluon.probability.values import Value, sum_right_most


class Independent(Distribution):
    """The last axes of a distribution's parameters taken as axes of one outcome, whose elements are independent.

    Threads: as `Distribution`.

    Parameters
    ----------
    base_distribution : Distribution
    reinterpreted_batch_ndims : int
        Number of axes.
    """

    _computes_wide = False

    def __init__(
        self,
        base_distribution: Distribution,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(base_distribution, Distribution):
            raise ArgumentError(
                f"[Independent] base_distribution: expected a Distribution, got {base_distribution!r}"
            )
        if not isinstance(reinterpreted_batch_ndims, int) or reinterpreted_batch_ndims < 0:
            raise ArgumentError(
                f"[Independent] reinterpreted_batch_ndims: expected an integer from 0, "
                f"got {reinterpreted_batch_ndims!r}"
            )
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        event_dim = reinterpreted_batch_ndims + (base_distribution.event_dim or 0)
        super().__init__(base_distribution.F, event_dim, validate_args)

    @property
    def has_grad(self) -> bool:  # type: ignore[override]
        """As the distribution within."""
        return self.base_dist.has_grad

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        """As the distribution within, if no axis is taken."""
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @property
    def support(self) -> Any:
        """As the distribution within."""
        return self.base_dist.support

    def _broadcast(self, shape: tuple[int, ...], inner: int) -> Any:
        base = self.base_dist._broadcast(shape, inner + self.reinterpreted_batch_ndims)
        return Independent(base, self.reinterpreted_batch_ndims, self._validate_args)

    def enumerate_support(self) -> Any:
        """As the distribution within.

        Raises
        ------
        NotImplementedError  an axis is taken: outcomes are combinations then
        """
        if not self.has_enumerate_support:
            raise self._missing("enumerate_support")
        return self.base_dist.enumerate_support()

    def log_prob(self, value: Any) -> Any:
        """The sum of the logarithms of densities along the axes taken."""
        self._validate_samples(value)
        return sum_right_most(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims).raw

    def sample(self, size: int | Sequence[int] | None = None) -> Any:
        """Draws outcomes; `size` has the axes taken, too."""
        return self.base_dist.sample(size)

    def sample_n(self, size: int | Sequence[int] | None = None) -> Any:
        """Draws that many times the outcomes of `sample()`."""
        return self.base_dist.sample_n(size)

    def _entropy(self) -> Value:
        inner = Value(self.base_dist.entropy()) + self._base_zeros()
        return sum_right_most(inner, self.reinterpreted_batch_ndims)

    def _base_zeros(self) -> Value:
        """Zeros of the shape of the parameters within."""
        return self.base_dist._batch_zeros()

    def _draw_like(self, batch: Value) -> Value:
        for _ in range(self.reinterpreted_batch_ndims):
            batch = batch.expanded(-1)
        return self.base_dist._draw_like(self._base_zeros() + batch)

    def _batch_zeros(self) -> Value:
        return sum_right_most(self._base_zeros(), self.reinterpreted_batch_ndims)

    def _mean(self) -> Value:
        return Value(self.base_dist.mean)

    def _variance(self) -> Value:
        return Value(self.base_dist.variance)
