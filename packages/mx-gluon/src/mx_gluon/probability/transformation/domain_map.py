# SPDX-License-Identifier: Apache-2.0
"""Transformations from all numbers to what a constraint allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mx_core.errors import ArgumentError
from mx_gluon.probability.constraint import (
    Constraint,
    GreaterThan,
    GreaterThanEq,
    HalfOpenInterval,
    Interval,
    LessThan,
    LessThanEq,
    NonNegative,
    OpenInterval,
    Positive,
    Real,
    Simplex,
    UnitInterval,
)
from mx_gluon.probability.transformation.transformation import (
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    SigmoidTransform,
    SoftmaxTransform,
    Transformation,
)
from mx_gluon.probability.values import Value

Factory = Callable[[Any], Transformation]


class domain_map:
    """Transformations by the class of a constraint.

    Threads: any may look up; register from one.
    """

    def __init__(self) -> None:
        self._factories: dict[type[Constraint], Factory] = {}

    def register(self, constraint: type[Constraint] | Constraint, factory: Factory | None = None) -> Any:
        """Keeps a function that makes a transformation from a constraint of a class; usable as a decorator.

        Raises
        ------
        ArgumentError  `constraint` is neither a constraint nor a class of them
        """
        if factory is None:
            return lambda function: self.register(constraint, function)
        kind = type(constraint) if isinstance(constraint, Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, Constraint):
            raise ArgumentError(
                f"[domain_map] constraint: expected a Constraint or a class of them, got {constraint!r}"
            )
        self._factories[kind] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transformation:
        """The transformation for a constraint.

        Raises
        ------
        NotImplementedError  none is registered for its class
        """
        factory = self._factories.get(type(constraint))
        if factory is None:
            known = ", ".join(sorted(kind.__name__ for kind in self._factories))
            raise NotImplementedError(
                f"[domain_map] no transformation to {type(constraint).__name__} is registered; there are {known}"
            )
        return factory(constraint)


#: bijections from all numbers to what a constraint allows
biject_to = domain_map()
#: transformations from all numbers to what a constraint allows, which need not be bijections
transform_to = domain_map()


def _to_real(constraint: Real) -> Transformation:
    return ComposeTransform([])


def _to_positive(constraint: Any) -> Transformation:
    return ExpTransform()


def _to_greater(constraint: Any) -> Transformation:
    return ComposeTransform([ExpTransform(), AffineTransform(constraint._lower_bound, 1.0)])


def _to_less(constraint: Any) -> Transformation:
    return ComposeTransform([ExpTransform(), AffineTransform(constraint._upper_bound, -1.0)])


def _to_interval(constraint: Any) -> Transformation:
    lower, upper = Value(constraint._lower_bound), Value(constraint._upper_bound)
    if lower.is_number and upper.is_number and (lower.raw, upper.raw) == (0.0, 1.0):
        return SigmoidTransform()
    return ComposeTransform([SigmoidTransform(), AffineTransform(lower.raw, (upper - lower).raw)])


_FACTORIES: list[tuple[type[Constraint], Factory]] = [
    (Real, _to_real),
    *((kind, _to_positive) for kind in (Positive, NonNegative)),
    *((kind, _to_greater) for kind in (GreaterThan, GreaterThanEq)),
    *((kind, _to_less) for kind in (LessThan, LessThanEq)),
    *((kind, _to_interval) for kind in (Interval, OpenInterval, HalfOpenInterval, UnitInterval)),
]
for _kind, _factory in _FACTORIES:
    biject_to.register(_kind, _factory)
    transform_to.register(_kind, _factory)
transform_to.register(Simplex, lambda constraint: SoftmaxTransform())
