# SPDX-License-Identifier: Apache-2.0
"""Comparisons accept what is within the tolerance and refuse what is not; their messages show where."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mx
from mx import test_utils as utils

NAN = np.array([1, 2.5, np.nan])


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("float32", "float16", (0.01, 0.1)), ("float64", "float32", (1e-4, 1e-3)),
        ("int32", "int32", (0, 0)), ("float64", "float64", (1e-5, 1e-20)), ("bool", "float64", (1e-5, 1e-20)),
    ],
)  # fmt: skip
def test_tolerances_are_those_of_the_coarser_type(a: str, b: str, expected: tuple[float, float]) -> None:
    x, y = np.ones(2, a), mx.nd.ones((2,), dtype=b) if b != "float64" else np.ones(2)
    assert utils.get_tols(x, y, None, None) == expected
    assert utils.get_tols(x, y, 0.5, None) == (0.5, expected[1])
    assert utils.get_tols(x, y, {np.dtype(b): 3.0}, None)[0] == 3.0
    assert utils.get_tols(x, y, None, {np.dtype(a): 5.0})[1] == 5.0


def test_tolerances_by_type() -> None:
    names = ("float16", "float32", "float64", "int64", "bool")
    assert [utils.default_rtols()[np.dtype(n)] for n in names] == [1e-2, 1e-4, 1e-5, 0, 0]
    assert [utils.default_atols()[np.dtype(n)] for n in names] == [1e-1, 1e-3, 1e-20, 0, 0]
    assert [utils.default_numeric_eps()[np.dtype(n)] for n in names[:3]] == [1 / 64, 1 / 512, 1 / 16384]
    assert (utils.get_rtol(), utils.get_atol(), utils.get_etol()) == (1e-5, 1e-20, 0)
    assert (utils.get_rtol(0.5), utils.get_atol(0.25), utils.get_etol(0.125)) == (0.5, 0.25, 0.125)
    assert utils.get_rtol(dtype="float16") == 1e-2 and utils.get_atol(dtype="float32") == 1e-3
    assert utils.effective_dtype(2) == np.int64 and utils.effective_dtype(mx.nd.ones((1,))) == np.float32


def test_equality() -> None:
    assert not utils.same(NAN, NAN) and utils.same(NAN[:2], mx.nd.array(NAN[:2]))
    assert not utils.same(np.ones(2), np.ones((2, 1)))
    assert utils.almost_equal(NAN, NAN, equal_nan=True) and not utils.almost_equal(NAN, NAN)
    assert utils.almost_equal(np.ones((3, 2)), np.ones((3, 1)))
    assert not utils.almost_equal(np.ones((3, 2)), np.ones((3, 1)), use_broadcast=False)
    assert utils.almost_equal(np.ones((3, 2)), np.ones((3, 2)), use_broadcast=False)
    assert utils.almost_equal(1.0, 1.5, rtol=0, atol=0.5) and not utils.almost_equal(
        1.0, 1.5, rtol=0, atol=0.4
    )


def test_the_tolerance_is_relative_to_the_second() -> None:
    utils.assert_almost_equal(np.array([8.0]), np.array([10.0]), rtol=0.2, atol=0)
    with pytest.raises(AssertionError, match=r"rtol=2\.0+e-01, atol=0"):
        utils.assert_almost_equal(np.array([10.0]), np.array([8.0]), rtol=0.2, atol=0)
    utils.assert_allclose(NAN, NAN + 5e-8)
    with pytest.raises(AssertionError):
        utils.assert_allclose(np.ones(1), np.ones(1) + 2e-7)


def test_shapes() -> None:
    utils.assert_almost_equal(np.ones((3, 2)), np.ones((3, 1)))
    utils.assert_almost_equal(np.ones((3, 2)), np.ones((3, 2)), use_broadcast=False)
    with pytest.raises(AssertionError, match=r"p.shape = \(3, 2\) and q.shape = \(3, 1\) are not equal"):
        utils.assert_almost_equal(np.ones((3, 2)), np.ones((3, 1)), names=("p", "q"), use_broadcast=False)
    with pytest.raises(ValueError, match="broadcast"):
        utils.assert_almost_equal(np.ones(3), np.ones(2))


@pytest.mark.parametrize("check", [utils.assert_almost_equal, utils.assert_almost_equal_with_err])
def test_shapes_that_do_not_broadcast_are_named(check: Any) -> None:
    with pytest.raises(ValueError, match=r"a.shape = \(2,\) and b.shape = \(3,\) do not broadcast"):
        check(np.zeros(2), mx.nd.zeros((3,)))


@pytest.mark.parametrize("check", [utils.assert_almost_equal, utils.assert_almost_equal_with_err])
def test_nan_equals_nan_only_on_request(check: Any) -> None:
    check(NAN, NAN, equal_nan=True)
    for other in (NAN, np.array([1, 2.5, 0])):
        with pytest.raises(AssertionError, match="nan"):
            check(NAN, other)
    with pytest.raises(AssertionError):
        check(NAN, np.array([1, 2.5, 0]), equal_nan=True)
    utils.assert_almost_equal_ignore_nan(NAN, np.array([1, 2.5, 7]))
    with pytest.raises(AssertionError):
        utils.assert_almost_equal_ignore_nan(NAN, np.array([1, 3.5, 7]))


def test_a_fraction_may_differ() -> None:
    right, wrong = np.arange(4.0), np.array([0, 1, 2, 9.0])
    utils.assert_almost_equal_with_err(right, wrong, etol=0.25)
    for other, allowed in ((wrong, None), (np.array([0, 1, 5, 9.0]), 0.25)):
        with pytest.raises(AssertionError):
            utils.assert_almost_equal_with_err(right, other, etol=allowed)


def report(*args: Any, **kwargs: Any) -> list[str]:
    with pytest.raises(AssertionError) as caught:
        utils.assert_almost_equal(*args, **kwargs)
    return str(caught.value).splitlines()


def test_the_report_shows_the_worst_elements_first_and_both_arrays() -> None:
    x, y = np.ones(40), np.ones(40)
    y[:20] += np.arange(1, 21)
    lines = report(x, y, rtol=0, atol=1.0, names=("left", "right"))
    assert lines[0] == (
        "Items are not equal: error 20.000000 exceeds tolerance rtol=0.000000e+00, atol=1.000000e+00 "
        "(mismatch 47.500000%)."
    )
    assert lines[1] == "  (19,): left=1, right=21, error 20.000000"
    places = [line for line in lines if line.startswith("  (")]
    assert [line.split(",")[0] for line in places] == [f"  ({i}" for i in range(19, 9, -1)]
    assert any(line.startswith(" left: array([1.,") for line in lines)
    assert any(line.startswith(" right: array([ 2.,") for line in lines)


def test_the_report_is_as_long_as_asked() -> None:
    lines = report(np.zeros(5), np.arange(5.0), mismatches=(2, 0))
    assert len(lines) == 3 and lines[1].startswith("  (4,): a=0, b=4")
    assert len(report(np.zeros(5), np.arange(5.0), mismatches=(0, 1))) == 3


def test_the_report_of_elements_without_a_difference_of_their_own() -> None:
    infinite = report(np.array([1.0, np.inf, np.nan]), np.array([1.0, np.inf, 2.0]))
    assert "error inf" in infinite[0] and "mismatch 33.3" in infinite[0] and infinite[1].startswith("  (2,)")
    assert "mismatch 50.0" in report(np.ones((2, 1)), np.array([[1], [3]]))[0]
