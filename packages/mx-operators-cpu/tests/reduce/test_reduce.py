# SPDX-License-Identifier: Apache-2.0
"""Reductions equal their references and stay accurate on long axes."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import array, verify

NAMES = ("sum", "mean", "prod", "max", "min", "nansum", "nanprod")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "uint8", "int64"])
def test_types(name: str, dtype: str, rng: np.random.Generator) -> None:
    x = array(rng, (3, 5, 4), dtype)
    if name.startswith("nan") and dtype.startswith(("float", "bfloat")):
        x[0, 0, :2] = np.nan
    for axis in (None, (1,), (0, 2)):
        verify(name, {"axis": axis}, [x])


@pytest.mark.parametrize(
    "shape", [(1,), (1, 1, 1), (7, 1, 3), (2, 3, 2, 3, 2), (0, 3), (3, 0), (130, 600), (600, 130), (5, 9000)]
)
def test_shapes(shape: tuple[int, ...], rng: np.random.Generator) -> None:
    x = array(rng, shape)
    for n in range(1, len(shape) + 1):
        for axis in combinations(range(len(shape)), n):
            for name in ("sum", "max"):
                verify(name, {"axis": axis, "keepdims": True}, [x])
    verify("sum", {"axis": (0,), "exclude": True}, [x])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
def test_a_sum_wraps_around_before_it_is_a_mean(dtype: str) -> None:
    x = np.full((3, 40), np.iinfo(dtype).max - 27, dtype)
    for axis in (None, (0,), (1,)):
        verify("mean", {"axis": axis}, [x])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "uint8"])
def test_the_mean_of_nothing_is_no_number(dtype: str) -> None:
    for axis in (None, (1,), (0, 1), (0,)):
        verify("mean", {"axis": axis}, [np.zeros((2, 0, 3), dtype)])


@pytest.mark.parametrize("axis", [None, (0,), (1,)])
def test_threads_change_nothing(axis: tuple[int, ...] | None, rng: np.random.Generator) -> None:
    x = array(rng, (700, 1100))
    for threads in (1, 2):
        verify("sum", {"axis": axis}, [x], threads=threads)
        verify("norm", {"axis": axis}, [x], threads=threads)


def test_long_float32_sums_are_accurate() -> None:
    x = np.full(3_000_000, 0.1, np.float32)
    want = np.float32(np.sum(x, dtype=np.float64))
    verify_exact = np.zeros(1, np.float32)
    from plans import WRITE, run

    from mx_operators_cpu.library import native

    for shape, reduced in (((x.size,), [True]), ((x.size, 1), [True, False]), ((3000, 1000), [True, True])):
        plan = native.reduce_plan([(shape, 0)], [((1,), 0)], "sum", reduced)
        run(plan, [x.reshape(shape)], [verify_exact], [WRITE], threads=2)
        np.testing.assert_allclose(verify_exact[0], want, rtol=5e-7)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int8"])
def test_positions(dtype: str, rng: np.random.Generator) -> None:
    x = array(rng, (4, 37, 5), dtype)
    for name in ("argmax", "argmin"):
        for attrs in ({"axis": 1}, {"axis": -1, "keepdims": True}, {"axis": 0}):
            verify(name, attrs, [x])
    verify("argmax_channel", {}, [x])
    verify("argmax", {}, [x[:, :5]])


def test_nan_is_an_extremum() -> None:
    x = np.array([[1, np.nan, 3, np.nan]], np.float32)
    verify("argmax", {"axis": 1}, [x])
    verify("max", {"axis": (1,)}, [x])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("axis", [None, (0,), (1,)])
def test_nan_is_found_anywhere(axis: tuple[int, ...] | None, dtype: str, rng: np.random.Generator) -> None:
    for n, place in ((50, 7), (700, 0), (700, 300), (700, 699), (70_000, 41_003)):
        x = array(rng, (3, n), dtype)
        x[1, place] = -np.nan
        x[2, :2] = np.inf, -np.inf
        for name in ("max", "min"):
            verify(name, {"axis": axis}, [x], threads=2)


def test_gradients(rng: np.random.Generator) -> None:
    x, g = array(rng, (3, 4, 5)), array(rng, (3, 5))
    axis = {"axis": (1,)}
    verify("_backward_mean", axis, [g, x])
    verify("_backward_extremum", axis, [g, x, x.max(1)])
    verify("_backward_prod", axis, [g, x, x.prod(1)])
    verify("_backward_nansum", axis, [g, x, x.sum(1)])
    verify("_backward_nanprod", axis, [g, x, x.prod(1)])
    for order in (1, 2):
        verify("_backward_norm", {**axis, "ord": order}, [g, x, np.abs(x).sum(1)])
        verify("norm", {**axis, "ord": order}, [x])
    verify("_backward_repeat", {"repeats": 3, "axis": 1}, [array(rng, (2, 12, 3)), array(rng, (2, 4, 3))])
    verify("_backward_repeat", {"repeats": 3}, [array(rng, (24,)), array(rng, (2, 4))])
    verify("_backward_tile", {"reps": (2, 1, 3)}, [array(rng, (2, 3, 12)), array(rng, (3, 4))])


@settings(max_examples=60, deadline=None)
@given(
    shape=st.lists(st.integers(1, 6), max_size=4),
    keep=st.lists(st.booleans(), min_size=4, max_size=4),
    lead=st.integers(0, 2),
)
def test_unbroadcast(shape: list[int], keep: list[bool], lead: int) -> None:
    rng = np.random.default_rng(0)
    like = tuple(size if k else 1 for size, k in zip(shape, keep, strict=False))
    whole = array(rng, (*(2,) * lead, *shape), "int8").astype(np.float32)  # sums in any order are exact
    verify("_unbroadcast", {}, [whole, array(rng, like)])
