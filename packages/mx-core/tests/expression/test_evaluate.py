# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import pytest

from mx_core import expression as X


def one(function, *arrays, scalars=()):  # type: ignore[no-untyped-def]
    made = X.trace(function, len(arrays), len(scalars))
    return X.evaluate(made, [np.asarray(a) for a in arrays], scalars)[0]


def test_broadcasting_and_scalars() -> None:
    x, y = np.ones((2, 1), np.float32), np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(one(lambda a, b, s: a + b * s, x, y, scalars=(2.0,)), x + y * 2)


def test_integer_division_truncates_and_survives_zero() -> None:
    a, b = np.array([7, -7, 7, -7, 5], np.int32), np.array([2, 2, -2, -2, 0], np.int32)
    np.testing.assert_array_equal(one(lambda x, y: x / y, a, b), [3, -3, -3, 3, 0])


def test_modulo_has_the_sign_of_the_divisor_and_zero_by_zero() -> None:
    a, b = np.array([7, -7, 7, 5], np.float32), np.array([3, 3, -3, 0], np.float32)
    np.testing.assert_array_equal(one(lambda x, y: x % y, a, b), [1, 2, -2, 0])


def test_comparison_keeps_the_type_of_its_operands() -> None:
    result = one(lambda x: x > 1, np.array([0.0, 2.0], np.float32))
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, [0, 1])


def test_round_goes_away_from_zero_and_rint_to_even() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, 0.49999997], np.float32)
    np.testing.assert_array_equal(one(X.round, x), [1, 2, 3, -1, 0])
    np.testing.assert_array_equal(one(X.rint, x), [0, 2, 2, -0.0, 0])


def test_relu_keeps_nan() -> None:
    np.testing.assert_array_equal(one(X.relu, np.array([-1, 2, math.nan], np.float32)), [0, 2, math.nan])


def test_special_functions_agree_with_known_values() -> None:
    x = np.array([0.5, 1.5, 4.0])
    np.testing.assert_allclose(
        one(X.digamma, x), [-1.9635100260214235, 0.03648997397857652, 1.2561176684318], rtol=1e-12
    )
    np.testing.assert_allclose(one(X.gammaln, x), [math.lgamma(v) for v in x])
    np.testing.assert_array_equal(one(X.gamma, np.array([0.0, -0.0, -1.0])), [math.inf, -math.inf, math.nan])
    half = np.array([-0.9, 0.0, 0.5, 0.999999])
    np.testing.assert_allclose([math.erf(v) for v in one(X.erfinv, half)], half, atol=1e-14)


@pytest.mark.parametrize("dtype", [np.float16, np.uint8, np.int64, np.bool_])
def test_result_has_the_type_of_the_first_input(dtype: type) -> None:
    assert one(lambda x: x + x, np.ones(3, dtype)).dtype == dtype


def test_cast_rounds_through_another_type() -> None:
    result = one(lambda x: X.cast(x, "int8") + 0.25, np.array([1.7, 300.0, -1.7], np.float32))
    np.testing.assert_array_equal(result, [1.25, 44.25, -0.75])


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int8, np.uint8, np.uint32])
def test_float_to_integer_truncates_and_wraps(dtype: type) -> None:
    wide = np.int32 if np.dtype(dtype).itemsize == 1 or dtype == np.int32 else np.int64
    numbers = [1e30, -1e30, math.nan, math.inf, 2.9, -2.9, 300.5, -129.0]
    lowest = np.iinfo(wide).min
    expected = np.array([lowest] * 4 + [2, -2, 300, -129], wide).astype(dtype)
    np.testing.assert_array_equal(X.convert(np.array(numbers), np.dtype(dtype)), expected)


@pytest.mark.filterwarnings("error")
def test_sigmoid_of_large_negative_numbers_is_exp() -> None:
    x = np.array([-745.0, -710.0, -40.0, -0.0, 40.0, 1e300, -np.inf, np.inf, np.nan])
    wanted = [*np.exp(x[:3]), 0.5, 1, 1, 0, 1, np.nan]
    np.testing.assert_allclose(one(X.sigmoid, x), wanted, 1e-15)
    np.testing.assert_allclose(
        one(X.sigmoid, np.float32([-100, -0.5])), [np.exp(-100.0), 1 / (1 + np.exp(0.5))], 1e-1
    )
