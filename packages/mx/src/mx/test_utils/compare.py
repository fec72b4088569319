# SPDX-License-Identifier: Apache-2.0
"""Comparing arrays, with messages that show where they differ most."""

from __future__ import annotations

from typing import Any

import numpy as np

from mx.test_utils.tolerance import Tolerance, get_etol, get_tols
from mx_core.errors import ShapeError


def host(values: Any) -> np.ndarray[Any, Any]:
    """NDArrays, numbers and lists as NumPy arrays."""
    return np.asarray(values.asnumpy() if hasattr(values, "asnumpy") else values)


def same(a: Any, b: Any) -> bool:
    """Whether two arrays are equal, in shape too; NaN equals nothing."""
    return bool(np.array_equal(host(a), host(b)))


def almost_equal(
    a: Any, b: Any, rtol: Tolerance = None, atol: Tolerance = None, equal_nan: bool = False,
    use_broadcast: bool = True,
) -> bool:  # fmt: skip
    """Whether |a − b| ≤ atol + rtol·|b| everywhere; tolerances default by type."""
    rtol, atol = get_tols(a, b, rtol, atol)
    x, y = host(a), host(b)
    if x.shape != y.shape and not use_broadcast:
        return False
    return bool(np.allclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan))


def assert_almost_equal(
    a: Any, b: Any, rtol: Tolerance = None, atol: Tolerance = None, names: tuple[str, str] = ("a", "b"),
    equal_nan: bool = False, use_broadcast: bool = True, mismatches: tuple[int, int] = (10, 10),
) -> None:  # fmt: skip
    """Raises AssertionError unless |a − b| ≤ atol + rtol·|b| everywhere.

    Parameters
    ----------
    a, b : NDArray, ndarray or number
    rtol, atol : float or mapping from type to float, optional
        Those of the coarser type by default.
    names : what the arrays are called in the message
    use_broadcast : whether shapes may differ if they broadcast
    mismatches : at most how many of the worst elements, and of what arrays, are shown
    """
    relative, absolute = get_tols(a, b, rtol, atol)
    x, y = host(a), host(b)
    if x.shape != y.shape and not use_broadcast:
        raise AssertionError(f"{names[0]}.shape = {x.shape} and {names[1]}.shape = {y.shape} are not equal")
    _expect_fitting(x, y, names)
    if np.allclose(x, y, rtol=relative, atol=absolute, equal_nan=equal_nan):
        return
    raise AssertionError(_report(x, y, relative, absolute, names, equal_nan, mismatches))


def _expect_fitting(x: Any, y: Any, names: tuple[str, str]) -> None:
    try:
        np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        raise ShapeError(
            f"[assert_almost_equal] {names[0]}.shape = {x.shape} and {names[1]}.shape = {y.shape} do not broadcast"
        ) from None


def _violation(x: Any, y: Any, rtol: float, atol: float, equal_nan: bool) -> Any:
    """How often the tolerance the difference is; infinite where only one is NaN."""
    with np.errstate(all="ignore"):
        allowed = atol + rtol * np.abs(y)
        difference = np.abs(x - y)
        ratio = np.where(difference == 0, 0, difference / allowed)
    ratio = np.where(x == y, 0, ratio)
    alike = np.isnan(x) & np.isnan(y) & equal_nan
    return np.where(alike, 0, np.where(np.isnan(ratio), np.inf, ratio))


def _report(
    x: Any, y: Any, rtol: float, atol: float, names: tuple[str, str], equal_nan: bool,
    mismatches: tuple[int, int],
) -> str:  # fmt: skip
    x, y = np.broadcast_arrays(x.astype(np.float64), y.astype(np.float64))
    ratio = _violation(x, y, rtol, atol, equal_nan)
    order = np.argsort(-ratio, axis=None, kind="stable")
    wrong = int((ratio > 1).sum())
    lines = [
        f"Items are not equal: error {ratio.max():f} exceeds tolerance rtol={rtol:e}, atol={atol:e} "
        f"(mismatch {100 * wrong / max(ratio.size, 1):f}%)."
    ]
    for flat in order[: min(wrong, mismatches[0])]:
        place = tuple(int(i) for i in np.unravel_index(flat, ratio.shape))
        lines.append(
            f"  {place}: {names[0]}={x[place]:.8g}, {names[1]}={y[place]:.8g}, error {ratio[place]:f}"
        )
    if mismatches[1]:
        lines += [f" {names[0]}: {x!r}", f" {names[1]}: {y!r}"]
    return "\n".join(lines)


def assert_allclose(a: Any, b: Any, rtol: float = 1e-07, atol: float = 0, equal_nan: bool = True) -> None:
    """`assert_almost_equal` with NumPy's tolerances."""
    assert_almost_equal(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


def assert_almost_equal_ignore_nan(
    a: Any, b: Any, rtol: Tolerance = None, atol: Tolerance = None, names: tuple[str, str] = ("a", "b")
) -> None:
    """`assert_almost_equal` where neither is NaN."""
    x, y = np.array(host(a)), np.array(host(b))
    either = np.isnan(x) | np.isnan(y)
    x[either] = y[either] = 0
    assert_almost_equal(x, y, rtol, atol, names)


def assert_almost_equal_with_err(
    a: Any, b: Any, rtol: Tolerance = None, atol: Tolerance = None, etol: float | None = None,
    names: tuple[str, str] = ("a", "b"), equal_nan: bool = False, mismatches: tuple[int, int] = (10, 10),
) -> None:  # fmt: skip
    """`assert_almost_equal` that allows a fraction `etol` of the elements to differ."""
    relative, absolute = get_tols(a, b, rtol, atol)
    x, y = host(a), host(b)
    _expect_fitting(x, y, names)
    ratio = _violation(x.astype(np.float64), y.astype(np.float64), relative, absolute, equal_nan)
    if (ratio > 1).sum() > get_etol(etol) * x.size:
        raise AssertionError(_report(x, y, relative, absolute, names, equal_nan, mismatches))
