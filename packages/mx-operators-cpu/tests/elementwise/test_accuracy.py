# SPDX-License-Identifier: Apache-2.0
"""Functions are within a few units in the last place of the exact value, in float32 and in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from plans import evaluated

from mx_core import dtypes
from mx_core import expression as X
from mx_core.expression import trace

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _exact_erf(x: np.ndarray) -> np.ndarray:
    """Of float64 numbers in a wider type: Kummer's series, whose terms have one sign (Abramowitz and Stegun 7.1.6)."""
    wide = np.clip(x, -9, 9).astype(np.longdouble)
    term = total = wide
    for n in range(1, 300):
        term = term * (2 * wide * wide / (2 * n + 1))
        total = total + term
    return 2 / np.sqrt(np.longdouble("3.14159265358979323846264338327950288")) * np.exp(-wide * wide) * total


def _gelu(x: Any) -> Any:
    return 0.5 * x * (1 + X.erf(x * 0.5**0.5))


CASES: list[tuple[str, Callable[..., Any], Callable[..., Any], tuple[float, float], float]] = [
    ("exp", X.exp, np.exp, (-87, 88.7), 1.5),
    ("expm1", X.expm1, np.expm1, (-18, 88.7), 2.5),
    ("expm1", X.expm1, np.expm1, (-1, 1), 2.5),
    ("log", X.log, np.log, (1e-38, 1e38), 1.5),
    ("log", X.log, np.log, (0.5, 2), 1.5),
    ("log1p", X.log1p, np.log1p, (-0.99, 10), 2.5),
    ("log1p", X.log1p, np.log1p, (-1e-3, 1e-3), 2.5),
    ("log2", X.log2, np.log2, (0.5, 4), 3),
    ("log10", X.log10, np.log10, (0.5, 20), 3),
    ("tanh", X.tanh, np.tanh, (-10, 10), 4),
    ("tanh", X.tanh, np.tanh, (1e-9, 1), 4),
    ("sigmoid", X.sigmoid, lambda x: 1 / (1 + np.exp(-x)), (-80, 80), 3),
    ("sigmoid", X.sigmoid, lambda x: 1 / (1 + np.exp(-x)), (-4, 1), 3),
    ("softplus", X.softplus, lambda x: np.logaddexp(0, x), (-80, 80), 3),
    ("erf", X.erf, _erf, (-4.2, 4.2), 3),
    ("erf", X.erf, _erf, (1e-9, 0.3), 3),
    ("gelu", _gelu, lambda x: 0.5 * x * (1 + _erf(x * 0.5**0.5)), (-1, 6), 3),
    ("sin", X.sin, np.sin, (-1e5, 1e5), 1),
    ("cos", X.cos, np.cos, (-1e5, 1e5), 1),
    ("tan", X.tan, np.tan, (-100, 100), 1),
    ("sqrt", X.sqrt, np.sqrt, (0, 1e6), 0.5),
    ("hypot", lambda x: X.hypot(x, 3.0), lambda x: np.hypot(x, 3.0), (-1e3, 1e3), 1),
]


@pytest.mark.parametrize(("name", "function", "exact", "interval", "most"), CASES)
def test_units_in_the_last_place(
    name: str,
    function: Callable[..., Any],
    exact: Callable[..., Any],
    interval: tuple[float, float],
    most: float,
) -> None:
    low, high = interval
    x = np.linspace(low, high, 50_000)
    if low > 0 and high / low > 1e6:
        x = np.exp(np.linspace(math.log(low), math.log(high), 50_000))
    x32 = x.astype(np.float32)
    (got,) = evaluated(trace(function, 1), [x32], [np.dtype(np.float32)])
    want = exact(x32.astype(np.float64))
    spacing = np.spacing(np.maximum(np.abs(want), 1.2e-38).astype(np.float32)).astype(np.float64)
    error = np.abs(got.astype(np.float64) - want) / spacing
    assert error.max() <= most, f"{name}: {error.max():.2f} ulp at {x32[error.argmax()]!r}"


def test_erf_ends_at_one() -> None:
    x = np.concatenate([np.linspace(3.7, 4.1, 10_000), [5, 1e3, 1e30, np.inf]]).astype(np.float32)
    (got,) = evaluated(trace(X.erf, 1), [np.concatenate([x, -x])], [np.dtype(np.float32)])
    assert abs(got).max() == 1 and (got[-4:] == -1).all()


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sigmoid", "erf"])
def test_results_do_not_depend_on_the_length(name: str) -> None:
    function = trace(getattr(X, name), 1)
    x = np.linspace(-3, 90, 200, dtype=np.float32)
    x[::17], x[5::31], x[7::29] = np.inf, -np.inf, np.nan
    x[3::13], x[4::23], x[6::37] = np.float32(1e-45), -88.5, -0.0
    (whole,) = evaluated(function, [x], [np.dtype(np.float32)])
    exact = {"sigmoid": lambda v: 1 / (1 + np.exp(-v)), "erf": _erf}.get(name) or getattr(np, name)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(whole, exact(x.astype(np.float64)).astype(np.float32), 4e-7, 1e-44)
    for n in (*range(1, 66), 127, 130, 199):
        (part,) = evaluated(function, [x[:n].copy()], [np.dtype(np.float32)])
        np.testing.assert_array_equal(part, whole[:n])


@pytest.mark.parametrize(
    ("name", "exact", "interval", "most"),
    [
        ("exp", np.exp, (-744, 709.7), 2),
        ("exp", np.exp, (-1, 1), 1.5),
        ("tanh", np.tanh, (-20, 20), 4),
        ("tanh", np.tanh, (1e-300, 1), 4),
        ("sigmoid", lambda x: 1 / (1 + np.exp(-x)), (-700, 700), 3),
        ("sigmoid", lambda x: 1 / (1 + np.exp(-x)), (-4, 1), 3),
        ("erf", _exact_erf, (-6.5, 6.5), 2),
        ("erf", _exact_erf, (-0.1, 0.1), 2),
        ("erf", _exact_erf, (1e-300, 1), 2),
    ],
)
def test_units_of_float64(
    name: str, exact: Callable[..., Any], interval: tuple[float, float], most: float
) -> None:
    low, high = interval
    x = np.linspace(low, high, 50_000)
    if low > 0:
        x = np.exp(np.linspace(math.log(low), math.log(high), 50_000))
    (got,) = evaluated(trace(getattr(X, name), 1), [x], [np.dtype(np.float64)])
    want = exact(x.astype(np.longdouble))
    error = np.abs(got - want) / np.spacing(np.maximum(np.abs(want).astype(np.float64), 5e-324))
    assert error.max() <= most, f"{name}: {error.max():.2f} ulp at {x[error.argmax()]!r}"


def test_units_of_gelu_in_float64() -> None:
    """Where the result is small, what is left of 1 + erf counts."""
    x = np.concatenate(
        [np.linspace(-9, 9, 50_000), np.linspace(-0.1, 0.1, 10_000), np.geomspace(1e-300, 1, 9_000)]
    )
    (got,) = evaluated(trace(_gelu, 1), [x], [np.dtype(np.float64)])
    wide = x.astype(np.longdouble)
    want = wide / 2 * (1 + _exact_erf(wide * np.sqrt(np.longdouble(0.5))))
    error = np.abs(got - want) / np.spacing(np.maximum(abs(want), abs(wide) / 2).astype(np.float64))
    assert error.max() <= 2, f"{error.max():.2f} ulp at {x[error.argmax()]!r}"


@pytest.mark.parametrize("name", ["exp", "tanh", "sigmoid", "erf", "gelu"])
def test_results_in_float64_do_not_depend_on_the_length(name: str) -> None:
    function = trace(_gelu if name == "gelu" else getattr(X, name), 1)
    x = np.linspace(-9, 9, 150)
    x[::17], x[5::31], x[7::29] = np.inf, -np.inf, np.nan
    x[3::13], x[4::23], x[6::37] = 5e-324, -745.0, -0.0
    (whole,) = evaluated(function, [x], [np.dtype(np.float64)])
    for n in (*range(1, 66), 127, 130, 149):
        (part,) = evaluated(function, [x[:n].copy()], [np.dtype(np.float64)])
        np.testing.assert_array_equal(part, whole[:n])


def test_subnormal_numbers_of_float64() -> None:
    x = np.array([5e-324, 1e-323, 3e-320, 2.2e-308]) * np.array([[1], [-1]])
    for name, slope in (("tanh", 1), ("erf", 2 / math.pi**0.5)):
        (got,) = evaluated(trace(getattr(X, name), 1), [x], [np.dtype(np.float64)])
        np.testing.assert_allclose(got, slope * x, 4e-16, 1e-323, err_msg=name)
        assert (np.signbit(got) == np.signbit(x)).all()
    (got,) = evaluated(trace(_gelu, 1), [x], [np.dtype(np.float64)])
    np.testing.assert_allclose(got, x / 2, 4e-16, 1e-323)
    (got,) = evaluated(trace(X.exp, 1), [np.linspace(-746, -708, 20_000)], [np.dtype(np.float64)])
    np.testing.assert_allclose(got, np.exp(np.linspace(-746, -708, 20_000)), 4e-16, 5e-324)


def test_ends_of_gelu_in_float64() -> None:
    payload = np.array([0xFFF7_FFFF_FFFF_FFFF, 0x7FF8_0000_0000_FFFF], np.uint64).view(np.float64)
    x = np.array([-1e308, -1e3, -40.0, -0.0, 0.0, 8.375, 40.0, 1e308, np.inf, np.nan])
    for name, function in (("gelu", _gelu), ("erf", X.erf)):
        (got,) = evaluated(trace(function, 1), [np.concatenate([x, payload])], [np.dtype(np.float64)])
        want = x if name == "gelu" else np.sign(x)
        np.testing.assert_array_equal(got[4:9], want[4:9], name)
        np.testing.assert_array_equal(got[:4], [0, 0, 0, 0] if name == "gelu" else [-1, -1, -1, -0.0], name)
        assert np.isnan(got[9:]).all()
        np.testing.assert_array_equal(np.signbit(got[:9]), np.signbit(x[:9]), name)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("length", [1, 33])
def test_gelu_keeps_the_sign_of_zero(dtype: str, length: int) -> None:
    kind = dtypes.numpy_dtype(dtypes.code(dtype))
    x = np.concatenate([np.full(length, -0.0), np.full(length, 0.0)]).astype(kind)
    (got,) = evaluated(trace(_gelu, 1), [x], [kind])
    assert (got == 0).all()
    np.testing.assert_array_equal(np.signbit(got.astype(np.float64)), np.arange(2 * length) < length)


@pytest.mark.parametrize(("dtype", "low"), [("float64", -750.0), ("float32", -105.0)])
def test_sigmoid_of_large_negative_numbers_is_exp(dtype: str, low: float) -> None:
    """Also where exp of the negated number is infinite, and the result subnormal."""
    kind = np.dtype(dtype)
    x = np.concatenate([np.linspace(low, low + 70, 20_011), [-np.inf, -1e30]]).astype(kind)
    (got,) = evaluated(trace(X.sigmoid, 1), [x], [kind])
    wide = np.exp(x.astype(np.longdouble))
    np.testing.assert_allclose(
        got, (wide / (1 + wide)).astype(kind), 3 * np.finfo(kind).eps, np.spacing(kind.type(0))
    )


def test_ends_of_float64() -> None:
    x = np.array([-np.inf, -1e300, -746, -745.2, -0.0, 0.0, 709.8, 711, 1e300, np.inf, np.nan])
    with np.errstate(all="ignore"):
        sigmoid = ("sigmoid", lambda v: 1 / (1 + np.exp(-v)))
        for name, exact in (("exp", np.exp), ("tanh", np.tanh), ("erf", _erf), sigmoid):
            (got,) = evaluated(trace(getattr(X, name), 1), [x], [np.dtype(np.float64)])
            np.testing.assert_allclose(got, exact(x), 1e-15, 5e-324, err_msg=name)
            assert name not in ("tanh", "erf") or np.signbit(got[4])
