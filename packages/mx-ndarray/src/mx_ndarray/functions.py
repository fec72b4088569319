# SPDX-License-Identifier: Apache-2.0
"""Functions of `nd` that accept arrays and numbers, or put operators together."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mx_core.errors import ArgumentError
from mx_ndarray.creation import array, is_rounded
from mx_ndarray.ndarray import NDArray, integer_operand, operand
from mx_ndarray.operator_functions import function, several


def _either(
    lhs: Any, rhs: Any, arrays: str, scalar: str, reflected: str, numbers: Callable[[Any, Any], Any]
) -> Any:
    """Dispatches on which operand is an array."""
    if isinstance(lhs, np.ndarray) and isinstance(rhs, NDArray):
        lhs = operand(rhs, lhs)
    if isinstance(rhs, np.ndarray) and isinstance(lhs, NDArray):
        rhs = operand(lhs, rhs)
    if isinstance(lhs, NDArray):
        if isinstance(rhs, NDArray):
            return function(arrays)(lhs, rhs)
        if is_rounded(rhs, lhs._dtype_code):
            return function(arrays)(lhs, integer_operand(lhs, rhs))
        return function(scalar)(lhs, scalar=_number(rhs, arrays))
    if isinstance(rhs, NDArray):
        if is_rounded(lhs, rhs._dtype_code):
            return function(arrays)(integer_operand(rhs, lhs), rhs)
        return function(reflected)(rhs, scalar=_number(lhs, arrays))
    return numbers(lhs, rhs)


def _number(value: Any, operator: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"[{operator}] expected an NDArray or a number, got {value!r}") from None


def add(lhs: Any, rhs: Any) -> Any:
    """lhs + rhs, broadcasting."""
    return operator.add(lhs, rhs)


def subtract(lhs: Any, rhs: Any) -> Any:
    """lhs − rhs, broadcasting."""
    return operator.sub(lhs, rhs)


def multiply(lhs: Any, rhs: Any) -> Any:
    """lhs · rhs elementwise, broadcasting."""
    return operator.mul(lhs, rhs)


def divide(lhs: Any, rhs: Any) -> Any:
    """lhs / rhs, broadcasting."""
    return operator.truediv(lhs, rhs)


true_divide = divide


def modulo(lhs: Any, rhs: Any) -> Any:
    """Remainder with the sign of rhs, broadcasting."""
    return operator.mod(lhs, rhs)


def power(base: Any, exp: Any) -> Any:
    """base to the power exp, broadcasting."""
    return operator.pow(base, exp)


def equal(lhs: Any, rhs: Any) -> Any:
    """1 where equal, else 0, broadcasting."""
    return operator.eq(lhs, rhs)


def not_equal(lhs: Any, rhs: Any) -> Any:
    """1 where different, else 0, broadcasting."""
    return operator.ne(lhs, rhs)


def greater(lhs: Any, rhs: Any) -> Any:
    """1 where lhs > rhs, else 0, broadcasting."""
    return operator.gt(lhs, rhs)


def greater_equal(lhs: Any, rhs: Any) -> Any:
    """1 where lhs ≥ rhs, else 0, broadcasting."""
    return operator.ge(lhs, rhs)


def lesser(lhs: Any, rhs: Any) -> Any:
    """1 where lhs < rhs, else 0, broadcasting."""
    return operator.lt(lhs, rhs)


def lesser_equal(lhs: Any, rhs: Any) -> Any:
    """1 where lhs ≤ rhs, else 0, broadcasting."""
    return operator.le(lhs, rhs)


def maximum(lhs: Any, rhs: Any) -> Any:
    """The larger one, broadcasting."""
    return _either(lhs, rhs, "broadcast_maximum", "_maximum_scalar", "_maximum_scalar", max)


def minimum(lhs: Any, rhs: Any) -> Any:
    """The smaller one, broadcasting."""
    return _either(lhs, rhs, "broadcast_minimum", "_minimum_scalar", "_minimum_scalar", min)


def hypot(lhs: Any, rhs: Any) -> Any:
    """√(lhs² + rhs²), broadcasting."""
    return _either(lhs, rhs, "broadcast_hypot", "_hypot_scalar", "_hypot_scalar", np.hypot)


def logical_and(lhs: Any, rhs: Any) -> Any:
    """1 where both are non-zero, broadcasting."""
    both: Callable[[Any, Any], Any] = lambda a, b: float(bool(a and b))
    name = "_logical_and_scalar"
    return _either(lhs, rhs, "broadcast_logical_and", name, name, both)


def logical_or(lhs: Any, rhs: Any) -> Any:
    """1 where one is non-zero, broadcasting."""
    either: Callable[[Any, Any], Any] = lambda a, b: float(bool(a or b))
    name = "_logical_or_scalar"
    return _either(lhs, rhs, "broadcast_logical_or", name, name, either)


def logical_xor(lhs: Any, rhs: Any) -> Any:
    """1 where exactly one is non-zero, broadcasting."""
    one: Callable[[Any, Any], Any] = lambda a, b: float(bool(a) != bool(b))
    name = "_logical_xor_scalar"
    return _either(lhs, rhs, "broadcast_logical_xor", name, name, one)


def concatenate(arrays: Sequence[NDArray], axis: int = 0, always_copy: bool = True) -> NDArray:
    """Arrays joined along an axis; a single one is copied only with `always_copy`."""
    if not arrays:
        raise ArgumentError("[concatenate] expected at least one array, got none")
    if len(arrays) == 1 and not always_copy:
        return arrays[0]
    return function("Concat")(*arrays, dim=axis)


def moveaxis(tensor: NDArray, source: int | Sequence[int], destination: int | Sequence[int]) -> NDArray:
    """Axes `source` moved to the places `destination`; the others keep their order."""
    ndim = tensor.ndim
    from_ = [source] if isinstance(source, int) else list(source)
    to = [destination] if isinstance(destination, int) else list(destination)
    if len(from_) != len(to):
        raise ArgumentError(f"[moveaxis] expected as many destinations as sources, got {from_}, {to}")
    for axis in (*from_, *to):
        if not -ndim <= axis < ndim:
            raise ArgumentError(f"[moveaxis] axis {axis} is out of range for {ndim} axes")
    from_ = [axis % ndim for axis in from_]
    to = [axis % ndim for axis in to]
    order = [axis for axis in range(ndim) if axis not in from_]
    for place, axis in sorted(zip(to, from_, strict=True)):
        order.insert(place, axis)
    return tensor.transpose(tuple(order))


def split_v2(
    ary: NDArray, indices_or_sections: int | Sequence[int], axis: int = 0, squeeze_axis: bool = False
) -> NDArray | list[NDArray]:
    """Pieces along an axis: equally many sections, or cut before the given indices."""
    if isinstance(indices_or_sections, int):
        settings: dict[str, Any] = {"sections": indices_or_sections, "indices": ()}
    else:
        settings = {"indices": (0, *indices_or_sections), "sections": 0}
    return several("_split_v2")(ary, axis=axis, squeeze_axis=squeeze_axis, **settings)


def onehot_encode(indices: NDArray, out: NDArray) -> NDArray:
    """Writes one-hot rows for `indices` into the matrix `out`."""
    return function("one_hot")(indices, depth=out.shape[1], dtype=out.dtype, out=out)


def histogram(
    a: NDArray, bins: int | NDArray = 10, range: tuple[float, float] | None = None
) -> list[NDArray]:
    """Counts and edges of a histogram; edges are equally wide unless `bins` gives them.

    Counts are int64 and edges of a's type; both float32, as MXNet has them, where the smallest and
    largest element give the range.
    """
    host = a.asnumpy()
    edges = bins.asnumpy() if isinstance(bins, NDArray) else bins
    try:
        counts, limits = np.histogram(host, edges, range)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"[histogram] bins={bins!r}, range={range!r}: {error}") from None
    if range is None and not isinstance(bins, NDArray):
        return [array(counts, a.context, np.float32), array(limits, a.context, np.float32)]
    return [array(counts, a.context, np.int64), array(limits, a.context, a.dtype)]
