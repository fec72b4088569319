# SPDX-License-Identifier: Apache-2.0
"""Distributions of transformed variables."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from typing import Any

from mx_core.errors import ArgumentError
from mx_gluon.probability.distributions.distribution import Distribution
from mx_gluon.probability.transformation import ComposeTransform, Transformation
from mx_gluon.probability.values import Value, sum_right_most, where


class TransformedDistribution(Distribution):
    """The distribution of t(x), where x has a distribution and t is one transformation or several.

    Threads: as `Distribution`.

    Parameters
    ----------
    base_dist : Distribution
    transforms : Transformation or sequence of them
        The first is applied first.
    """

    _computes_wide = False

    def __init__(
        self,
        base_dist: Distribution,
        transforms: Transformation | Sequence[Transformation],
        validate_args: bool | None = None,
    ) -> None:
        parts = [transforms] if isinstance(transforms, Transformation) else list(transforms)
        if not isinstance(base_dist, Distribution):
            raise ArgumentError(
                f"[TransformedDistribution] base_dist: expected a Distribution, got {base_dist!r}"
            )
        for part in parts:
            if not isinstance(part, Transformation):
                raise ArgumentError(
                    f"[TransformedDistribution] transforms: expected Transformations, got {part!r}"
                )
            part.F = base_dist.F
        self._base_dist = base_dist
        self._transforms = parts
        event_dim = max([base_dist.event_dim or 0, *[part.event_dim for part in parts]])
        super().__init__(base_dist.F, event_dim, validate_args)

    @property
    def has_grad(self) -> bool:  # type: ignore[override]
        """As the base."""
        return self._base_dist.has_grad

    def _broadcast(self, shape: tuple[int, ...], inner: int) -> Any:
        made = copy.copy(self)
        more = (self.event_dim or 0) - (self._base_dist.event_dim or 0)
        made._base_dist = self._base_dist._broadcast(shape, inner + more)
        return made

    def sample(self, size: int | Sequence[int] | None = None) -> Any:
        """Draws outcomes of the base and transforms them."""
        return self._forward(self._base_dist.sample(size))

    def sample_n(self, size: int | Sequence[int] | None = None) -> Any:
        """Draws that many times the outcomes of `sample()`."""
        return self._forward(self._base_dist.sample_n(size))

    def _forward(self, x: Any) -> Any:
        for part in self._transforms:
            x = part(x)
        return x

    def _log_prob(self, x: Value) -> Value:
        dims = self.event_dim or 0
        total = outside = Value(0.0)
        y = x.raw
        for part in _backwards(self._transforms):
            if part._image is not None:
                beyond = part._image.outside(Value(y))
                outside = outside + sum_right_most(beyond, dims)
                y = part._image.brought(Value(y), beyond).raw
            before = part.inv(y)
            total = total - sum_right_most(part.log_det_jacobian(before, y), dims - part.event_dim)
            y = before
        base = self._base_dist
        total = total + sum_right_most(base.log_prob(y), dims - (base.event_dim or 0))
        return where(outside, -math.inf, total)

    def _batch_zeros(self) -> Value:
        more = (self.event_dim or 0) - (self._base_dist.event_dim or 0)
        return sum_right_most(self._base_dist._batch_zeros(), more)

    def _draw_like(self, batch: Value) -> Value:
        for _ in range((self.event_dim or 0) - (self._base_dist.event_dim or 0)):
            batch = batch.expanded(-1)
        drawn = self._base_dist._draw_like(self._base_dist._batch_zeros() + batch)
        return Value(self._forward(drawn.raw))

    def _sign(self) -> Value:
        sign = Value(1.0)
        for part in self._transforms:
            sign = sign * part.sign
        return sign

    def _cdf(self, x: Value) -> Value:
        y = x.raw
        for part in _backwards(self._transforms):
            y = _inverse_to_the_ends(part, y)
        return self._sign() * (Value(self._base_dist.cdf(y)) - 0.5) + 0.5

    def _icdf(self, p: Value) -> Value:
        turned = self._sign() * (p - 0.5) + 0.5
        return Value(self._forward(self._base_dist.icdf(turned.raw)))


def _backwards(transforms: Sequence[Transformation]) -> Iterator[Transformation]:
    """The last first, with the parts of what is composed."""
    for part in reversed(transforms):
        if isinstance(part, ComposeTransform):
            yield from _backwards(part._parts)
        else:
            yield part


def _inverse_to_the_ends(part: Transformation, y: Any) -> Any:
    """The inverse, also of what is at the bounds of what the transformation gives or beyond them."""
    image = part._image
    if image is None:
        return part.inv(y)
    before = Value(part.inv(image.clipped(Value(y)).raw))
    if image._upper_bound is not None:  # it increases
        before = where(Value(y) >= image._upper_bound, math.inf, before)
        before = where(Value(y) <= image._lower_bound, -math.inf, before)
    return before.raw
