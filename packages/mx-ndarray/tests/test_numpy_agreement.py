# SPDX-License-Identifier: Apache-2.0
"""Indexing, broadcasting, reshaping and reductions against NumPy, over generated cases.

The default run takes some, `nox -s nightly` thousands of each.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mx_core.errors import IndexOutOfBoundsError, MXNetError
from mx_ndarray import NDArray, autograd, nd

Draw = st.DataObject
Host = np.ndarray[Any, Any]
SHAPES = hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4)


def examples(check: Callable[[Draw], None]) -> Callable[[int], None]:
    """A test that runs `check` over generated cases, more of them in the nightly run."""

    def run(number: int) -> None:
        options = settings(
            max_examples=number, deadline=None, database=None, suppress_health_check=list(HealthCheck)
        )
        options(given(st.data())(check))()

    run.__doc__ = check.__doc__
    marked = pytest.param(4000, marks=[pytest.mark.slow, pytest.mark.timeout(900)])
    return pytest.mark.parametrize("number", [60, marked])(run)  # type: ignore[no-any-return]


def source(shape: tuple[int, ...]) -> Host:
    """Small whole numbers in a mixed-up order, none of them 0."""
    size = int(np.prod(shape))
    return (np.arange(size, dtype=np.float32) * 7 % 11 - 5.5).reshape(shape)


def whole(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape as arrays here have it: there are none without axes."""
    return shape or (1,)


# ---- indexing ----


@st.composite
def keys(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """A key for NumPy and the same one for us: slices, integers, None, ..., arrays, lists, masks."""
    block = draw(hnp.array_shapes(max_dims=2, max_side=3))
    theirs: list[Any] = []
    ours: list[Any] = []
    axis = 0
    while axis < len(shape) and draw(st.integers(0, 4)) > 0:
        extent = shape[axis]
        kind = draw(st.sampled_from(("slice", "int", "none", "array", "list", "ndarray", "mask")))
        if kind == "mask":
            count = draw(st.integers(1, len(shape) - axis))
            mask = draw(hnp.arrays(bool, shape[axis : axis + count]))
            theirs.append(mask)
            ours.append(nd.array(mask, dtype=bool) if draw(st.booleans()) else mask)
            axis += count
            continue
        item: Any = None
        if kind == "slice":
            item = draw(st.slices(extent))
        elif kind == "int":
            item = draw(st.integers(-extent, extent - 1))
        elif kind != "none":
            width = block if draw(st.booleans()) else block[-1:]
            item = draw(hnp.arrays(np.int64, width, elements=st.integers(-extent, extent - 1)))
        theirs.append(item)
        given: Any = item.tolist() if kind == "list" else item
        ours.append(
            nd.array(item, dtype=draw(st.sampled_from(("int64", "float32")))) if kind == "ndarray" else given
        )
        axis += item is not None
    if draw(st.booleans()):
        # Elsewhere it would move indices to other axes.
        at = draw(st.integers(0, len(theirs))) if axis == len(shape) else len(theirs)
        theirs.insert(at, Ellipsis)
        ours.insert(at, Ellipsis)
    return (tuple(theirs), tuple(ours)) if len(theirs) != 1 else (theirs[0], ours[0])


@examples
def test_reads_and_their_gradients(data: Draw) -> None:
    shape = data.draw(SHAPES)
    theirs, ours = data.draw(keys(shape))
    host, x = source(shape), nd.array(source(shape))
    x.attach_grad()
    try:
        expected = host[theirs]
    except IndexError:
        with pytest.raises(IndexOutOfBoundsError):
            x[ours]
        return
    with autograd.record():
        picked = x[ours]
        assert picked.shape == whole(expected.shape)
        np.testing.assert_array_equal(picked.asnumpy().reshape(expected.shape), expected)
        if not expected.size:
            return
        weight = np.arange(expected.size, dtype=np.float32).reshape(expected.shape)
        total = (picked * nd.array(weight.reshape(picked.shape))).sum()
    total.backward()
    gradient = np.zeros(shape, np.float32)
    np.add.at(gradient, theirs, weight)
    np.testing.assert_array_equal(x.grad.asnumpy(), gradient)


@examples
def test_writes(data: Draw) -> None:
    shape = data.draw(SHAPES)
    theirs, ours = data.draw(keys(shape))
    host, x = source(shape), nd.array(source(shape))
    try:
        part = host[theirs].shape
    except IndexError:
        with pytest.raises(IndexOutOfBoundsError):
            x[ours] = 0
        return
    if data.draw(st.booleans()):
        host[theirs] = 3
        x[ours] = 3
    else:
        low = data.draw(st.integers(0, len(part)))
        value = source(tuple(1 if data.draw(st.booleans()) else d for d in part[low:]))
        # Which of several values for one element counts is nobody's business.
        value = (
            value
            if value.size <= 1 or np.unique(_positions(theirs, shape)).size == np.prod(part)
            else value * 0
        )
        host[theirs] = value
        x[ours] = value if data.draw(st.booleans()) or not value.ndim else nd.array(value)
    np.testing.assert_array_equal(x.asnumpy(), host)


def _positions(key: Any, shape: tuple[int, ...]) -> Host:
    return np.asarray(np.arange(int(np.prod(shape))).reshape(shape)[key])


# ---- broadcasting ----

OPERATORS: tuple[Callable[[Any, Any], Any], ...] = (
    operator.add, operator.sub, operator.mul, operator.truediv, operator.lt, operator.ge, operator.eq,
)  # fmt: skip


@examples
def test_broadcasting_and_its_gradients(data: Draw) -> None:
    shapes = data.draw(
        hnp.mutually_broadcastable_shapes(num_shapes=2, min_dims=1, max_dims=4, max_side=3)
    ).input_shapes
    function = data.draw(st.sampled_from(OPERATORS))
    left, right = (source(shape) for shape in shapes)
    x, y = nd.array(left), nd.array(right)
    np.testing.assert_allclose(function(x, y).asnumpy(), function(left, right).astype(np.float32), rtol=1e-6)
    x.attach_grad()
    y.attach_grad()
    with autograd.record():
        product = x * y
    product.backward()
    for variable, other, mine in ((x, right, left), (y, left, right)):
        expected = _summed_to(np.broadcast_to(other, product.shape), mine.shape)
        np.testing.assert_allclose(variable.grad.asnumpy(), expected, rtol=1e-5, atol=1e-4)


def _summed_to(values: Host, shape: tuple[int, ...]) -> Host:
    values = values.sum(tuple(range(values.ndim - len(shape))))
    return values.sum(tuple(i for i, d in enumerate(shape) if d == 1 and values.shape[i] != 1), keepdims=True)


@examples
def test_what_does_not_broadcast_is_refused(data: Draw) -> None:
    shape, other = data.draw(SHAPES), data.draw(SHAPES)
    try:
        expected: tuple[int, ...] | None = np.broadcast_shapes(shape, other)
    except ValueError:
        expected = None
    if expected is None:
        with pytest.raises(MXNetError, match="broadcast"):
            nd.ones(shape) + nd.ones(other)
    else:
        assert (nd.ones(shape) + nd.ones(other)).shape == expected


# ---- reshape codes ----


@st.composite
def reshapes(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """A shape, codes, and the shape the codes stand for."""
    shape = draw(SHAPES)
    codes: list[int] = []
    result: list[int] = []
    axis = 0
    open_ = False
    while axis < len(shape):
        left = len(shape) - axis
        size = shape[axis]
        code = draw(st.sampled_from((0, -1, -2, -3, -4, size) if left > 1 else (0, -1, -2, -4, size)))
        if code == -2:
            codes.append(-2)
            result.extend(shape[axis:])
            axis = len(shape)
        elif code == -3:
            codes.append(-3)
            result.append(size * shape[axis + 1])
            axis += 2
        elif code == -4:
            first = draw(st.sampled_from([d for d in range(1, size + 1) if size % d == 0]))
            second = size // first
            hidden = draw(st.sampled_from(((first, second), (-1, second), (first, -1))))
            codes.extend((-4, *hidden))
            result.extend((first, second))
            axis += 1
        elif code == -1 and not open_:
            open_ = True
            codes.append(-1)
            result.append(size)
            axis += 1
        else:
            codes.append(max(code, 0))
            result.append(size)
            axis += 1
    new = [1] * draw(st.integers(0, 2))
    return shape, (*codes, *new), (*result, *new)


@examples
def test_reshape_codes(data: Draw) -> None:
    shape, codes, expected = data.draw(reshapes())
    host = source(shape)
    x = nd.array(host)
    x.attach_grad()
    with autograd.record():
        y = x.reshape(codes)
        assert y.shape == expected == nd.Reshape(x, shape=codes).shape
        total = (y * y).sum()
    np.testing.assert_array_equal(y.asnumpy(), host.reshape(expected))
    total.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), 2 * host)


# ---- reductions ----

REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min, "prod": np.prod,
}  # fmt: skip


@examples
def test_reductions_and_their_gradients(data: Draw) -> None:
    shape = data.draw(SHAPES)
    name = data.draw(st.sampled_from(sorted(REDUCTIONS)))
    axes = data.draw(st.sets(st.integers(0, len(shape) - 1)))
    keep, exclude = data.draw(st.booleans()), data.draw(st.booleans())
    given_axes = tuple(a - len(shape) * data.draw(st.integers(0, 1)) for a in sorted(axes))
    reduced = tuple(set(range(len(shape))) - axes) if exclude and axes else tuple(axes) or None
    host = source(shape)
    x = nd.array(host)
    x.attach_grad()
    with autograd.record():
        y: NDArray = getattr(nd, name)(x, axis=given_axes, keepdims=keep, exclude=exclude)
    expected = REDUCTIONS[name](host.astype(np.float64), axis=reduced, keepdims=keep)
    if not (exclude and not axes):
        assert y.shape == whole(np.shape(expected))
        with np.errstate(over="ignore"):
            rounded = np.float32(expected)
        np.testing.assert_allclose(y.asnumpy().reshape(np.shape(expected)), rounded, rtol=1e-5, atol=1e-5)
    if name in ("sum", "mean"):
        y.backward()
        weight = 1.0 if name == "sum" else y.size / host.size
        np.testing.assert_allclose(x.grad.asnumpy(), np.full(shape, weight), rtol=1e-5)
