# SPDX-License-Identifier: Apache-2.0
"""Constraints of parameters and supports: what is allowed, and an error that names what is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core.errors import ArgumentError
from mx_gluon.probability.values import Value, at_least, at_most, below_one, smallest, where
from mx_ndarray import NDArray
from mx_symbol.symbol import Symbol


class Constraint:
    """A set of allowed values.

    Threads: never changes; any may use one.
    """

    def check(self, value: Any, what: str = "value") -> Any:
        """The value itself, if it is allowed.

        Blocks until the value is computed. Symbols have no values and are not checked.

        Raises
        ------
        ArgumentError  a value is not allowed; the first such one is named with its index
        """
        if isinstance(value, Symbol):
            return value
        array = value.asnumpy() if isinstance(value, NDArray) else np.asarray(value)
        array, allowed = np.broadcast_arrays(array, self._allowed(array))
        if not allowed.all():
            index = tuple(int(i) for i in np.argwhere(~allowed)[0])
            place = f" at index {index}" if index else ""
            raise ArgumentError(f"{what}: expected {self}, got {array[index]}{place}")
        return value

    def _allowed(self, array: np.ndarray) -> Any:
        """Which elements are allowed, as booleans that broadcast to the array."""
        raise NotImplementedError(f"[probability] {type(self).__name__} does not define _allowed")


class Real(Constraint):
    """Anything but NaN.

    Threads: never changes; any may use one.
    """

    def __str__(self) -> str:
        return "a number"

    def _allowed(self, array: np.ndarray) -> Any:
        return ~np.isnan(array)


class Boolean(Constraint):
    """0 or 1.

    Threads: never changes; any may use one.
    """

    def __str__(self) -> str:
        return "0 or 1"

    def _allowed(self, array: np.ndarray) -> Any:
        return (array == 0) | (array == 1)


class _Bounded(Constraint):
    """Numbers between bounds, each of which may be None, a number, an NDArray or a symbol."""

    _open_lower = False
    _open_upper = False
    _integer = False

    def __init__(self, lower_bound: Any = None, upper_bound: Any = None) -> None:
        self._lower_bound = lower_bound
        self._upper_bound = upper_bound

    def __str__(self) -> str:
        parts = []
        if self._lower_bound is not None:
            parts.append(f"{'>' if self._open_lower else '>='} {_shown(self._lower_bound)}")
        if self._upper_bound is not None:
            parts.append(f"{'<' if self._open_upper else '<='} {_shown(self._upper_bound)}")
        return ("an integer " if self._integer else "") + " and ".join(parts)

    def _allowed(self, array: np.ndarray) -> Any:
        allowed = ~np.isnan(array)
        if self._integer:
            allowed &= array % 1 == 0
        for bound, compare in ((self._lower_bound, self._above), (self._upper_bound, self._below)):
            if bound is not None and not isinstance(bound, Symbol):
                limit = bound.asnumpy() if isinstance(bound, NDArray) else bound
                allowed = allowed & compare(array, limit)
        return allowed

    def _above(self, array: Any, limit: Any) -> Any:
        return array > limit if self._open_lower else array >= limit

    def _below(self, array: Any, limit: Any) -> Any:
        return array < limit if self._open_upper else array <= limit

    def outside(self, value: Value) -> Value:
        """1 where the value is beyond a bound, 0 elsewhere, also for NaN."""
        found = Value(0.0)
        if self._lower_bound is not None:
            lower = self._lower_bound
            found = found + (value <= lower if self._open_lower else value < lower)
        if self._upper_bound is not None:
            upper = self._upper_bound
            found = found + (value >= upper if self._open_upper else value > upper)
        return found

    def brought(self, value: Value, outside: Value) -> Value:
        """The value, or a number between the bounds where it is outside."""
        lower, upper = self._lower_bound, self._upper_bound
        if lower is None:
            between = Value(upper) - 1.0
        else:
            between = Value(lower) + 1.0 if upper is None else (Value(lower) + upper) * 0.5
        return where(outside, between, value)

    def kept_within(self, value: Value) -> Value:
        """The value, or the nearest number within an open bound of 0 or 1 to which it was rounded."""
        if self._integer:
            return value
        if self._open_lower and isinstance(self._lower_bound, int) and self._lower_bound == 0:
            value = at_least(value, smallest(value))
        if self._open_upper and isinstance(self._upper_bound, int) and self._upper_bound == 1:
            value = at_most(value, below_one(value, 2.0**-53, 2.0**-24))
        return value

    def clipped(self, value: Value) -> Value:
        """The value, or the bound that is nearest to it."""
        if self._lower_bound is not None:
            value = at_least(value, self._lower_bound)
        return value if self._upper_bound is None else at_most(value, self._upper_bound)


def _shown(bound: Any) -> str:
    if isinstance(bound, NDArray):
        return str(bound.asnumpy().tolist())
    return str(bound)


class Interval(_Bounded):
    """From `lower_bound` to `upper_bound`, both allowed.

    Threads: never changes; any may use one.
    """

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        super().__init__(lower_bound, upper_bound)


class OpenInterval(Interval):
    """Between `lower_bound` and `upper_bound`, neither allowed.

    Threads: never changes; any may use one.
    """

    _open_lower = _open_upper = True


class HalfOpenInterval(Interval):
    """From `lower_bound` to less than `upper_bound`.

    Threads: never changes; any may use one.
    """

    _open_upper = True


class UnitInterval(Interval):
    """From 0 to 1.

    Threads: never changes; any may use one.
    """

    def __init__(self) -> None:
        super().__init__(0, 1)


class IntegerInterval(Interval):
    """Integers from `lower_bound` to `upper_bound`.

    Threads: never changes; any may use one.
    """

    _integer = True


class IntegerOpenInterval(OpenInterval):
    """Integers between `lower_bound` and `upper_bound`, neither allowed.

    Threads: never changes; any may use one.
    """

    _integer = True


class IntegerHalfOpenInterval(HalfOpenInterval):
    """Integers from `lower_bound` to less than `upper_bound`.

    Threads: never changes; any may use one.
    """

    _integer = True


class GreaterThanEq(_Bounded):
    """At least `lower_bound`.

    Threads: never changes; any may use one.
    """

    def __init__(self, lower_bound: Any) -> None:
        super().__init__(lower_bound)


class GreaterThan(GreaterThanEq):
    """More than `lower_bound`.

    Threads: never changes; any may use one.
    """

    _open_lower = True


class LessThanEq(_Bounded):
    """At most `upper_bound`.

    Threads: never changes; any may use one.
    """

    def __init__(self, upper_bound: Any) -> None:
        super().__init__(None, upper_bound)


class LessThan(LessThanEq):
    """Less than `upper_bound`.

    Threads: never changes; any may use one.
    """

    _open_upper = True


class IntegerGreaterThan(GreaterThan):
    """Integers greater than `lower_bound`.

    Threads: never changes; any may use one.
    """

    _integer = True


class IntegerGreaterThanEq(GreaterThanEq):
    """Integers from `lower_bound`.

    Threads: never changes; any may use one.
    """

    _integer = True


class IntegerLessThan(LessThan):
    """Integers less than `upper_bound`.

    Threads: never changes; any may use one.
    """

    _integer = True


class IntegerLessThanEq(LessThanEq):
    """Integers up to `upper_bound`.

    Threads: never changes; any may use one.
    """

    _integer = True


class Positive(GreaterThan):
    """More than 0.

    Threads: never changes; any may use one.
    """

    def __init__(self) -> None:
        super().__init__(0)


class NonNegative(GreaterThanEq):
    """0 or more.

    Threads: never changes; any may use one.
    """

    def __init__(self) -> None:
        super().__init__(0)


class PositiveInteger(IntegerGreaterThan):
    """1, 2, 3 and so on.

    Threads: never changes; any may use one.
    """

    def __init__(self) -> None:
        super().__init__(0)


class NonNegativeInteger(IntegerGreaterThanEq):
    """0, 1, 2 and so on.

    Threads: never changes; any may use one.
    """

    def __init__(self) -> None:
        super().__init__(0)


class Simplex(Constraint):
    """Vectors along the last axis of numbers from 0 whose sum is 1.

    Threads: never changes; any may use one.
    """

    def __str__(self) -> str:
        return "numbers from 0 with a sum of 1 along the last axis"

    def _allowed(self, array: np.ndarray) -> Any:
        total = array.sum(-1, keepdims=True, dtype=np.float64)
        return (array >= 0) & (np.abs(total - 1) < 1e-5)


class LowerTriangular(Constraint):
    """Square matrices with zeros above the diagonal.

    Threads: never changes; any may use one.
    """

    def __str__(self) -> str:
        return "a square matrix with zeros above its diagonal"

    def _allowed(self, array: np.ndarray) -> Any:
        _require_square(self, array)
        return np.tril(array) == array


class LowerCholesky(LowerTriangular):
    """Lower triangular matrices with a positive diagonal.

    Threads: never changes; any may use one.
    """

    def __str__(self) -> str:
        return super().__str__() + " and positive numbers on it"

    def _allowed(self, array: np.ndarray) -> Any:
        positive = ~np.eye(array.shape[-1], dtype=bool) | (array > 0) if array.ndim > 1 else True
        return super()._allowed(array) & positive


class PositiveDefinite(Constraint):
    """Symmetric matrices with positive eigenvalues.

    Threads: never changes; any may use one.
    """

    def __str__(self) -> str:
        return "a symmetric matrix with positive eigenvalues"

    def _allowed(self, array: np.ndarray) -> Any:
        _require_square(self, array)
        symmetric = np.abs(array - np.swapaxes(array, -1, -2)) <= 1e-5 * np.abs(array).max(initial=1e-30)
        positive = np.asarray((np.linalg.eigvalsh(array.astype(np.float64)) > 0).all(-1))
        return symmetric & positive[..., None, None]


def _require_square(constraint: Constraint, array: np.ndarray) -> None:
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        raise ArgumentError(f"[probability] expected {constraint}, got an array of shape {array.shape}")


class _Parts(Constraint):
    """Several constraints along an axis."""

    def __init__(self, constraint_seq: Sequence[Constraint], axis: int = 0) -> None:
        self._constraints = list(constraint_seq)
        self._axis = axis

    def _lengths(self) -> list[int]:
        return [1] * len(self._constraints)

    def __str__(self) -> str:
        return f"along axis {self._axis}: " + "; ".join(map(str, self._constraints))

    def _allowed(self, array: np.ndarray) -> Any:
        lengths = self._lengths()
        if array.shape[self._axis] != sum(lengths):
            raise ArgumentError(
                f"[probability] expected an extent of {sum(lengths)} along axis {self._axis}, got shape {array.shape}"
            )
        parts = np.split(array, np.cumsum(lengths)[:-1], self._axis)
        found = [
            np.broadcast_to(each._allowed(part), part.shape) for each, part in zip(self._constraints, parts)
        ]
        return np.concatenate(found, self._axis)


class Cat(_Parts):
    """Constraints of consecutive parts along an axis.

    Threads: never changes; any may use one.

    Parameters
    ----------
    constraint_seq : sequence of Constraint
    axis : int
    lengths : sequence of int
        The extents of the parts; 1 each by default.
    """

    def __init__(
        self, constraint_seq: Sequence[Constraint], axis: int = 0, lengths: Sequence[int] | None = None
    ) -> None:
        super().__init__(constraint_seq, axis)
        self._given = [1] * len(self._constraints) if lengths is None else list(lengths)
        if len(self._given) != len(self._constraints):
            raise ArgumentError(
                f"[Cat] lengths: expected {len(self._constraints)} numbers, got {self._given}; one per constraint"
            )

    def _lengths(self) -> list[int]:
        return self._given


class Stack(_Parts):
    """A constraint for each index of an axis.

    Threads: never changes; any may use one.

    Parameters
    ----------
    constraint_seq : sequence of Constraint
    axis : int
    """

    def _allowed(self, array: np.ndarray) -> Any:
        if array.shape[self._axis] != len(self._constraints):
            return super()._allowed(array)  # which raises
        parts = np.moveaxis(array, self._axis, 0)
        found = [
            np.broadcast_to(each._allowed(part), part.shape) for each, part in zip(self._constraints, parts)
        ]
        return np.stack(found, self._axis)
