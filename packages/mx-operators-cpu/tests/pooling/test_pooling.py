# SPDX-License-Identifier: Apache-2.0
"""Pooling against its reference."""

import layer_plans
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mx_core import operators

KINDS = [{"pool_type": "max"}, {"pool_type": "avg"}, {"pool_type": "avg", "count_include_pad": False},
         {"pool_type": "sum"}, {"pool_type": "lp", "p_value": 1}, {"pool_type": "lp", "p_value": 2},
         {"pool_type": "lp", "p_value": 3}]  # fmt: skip


def _data(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("shape", "window"),
    [
        ((2, 3, 7, 8), {"kernel": (2, 3), "stride": (2, 1)}),
        ((2, 3, 7, 8), {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1)}),
        ((2, 3, 8, 7), {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "pooling_convention": "full"}),
        ((1, 2, 9), {"kernel": (3,), "stride": (2,), "pooling_convention": "same"}),
        ((1, 2, 4, 5, 6), {"kernel": (2, 2, 3), "stride": (2, 2, 2)}),
        ((2, 8, 30, 31), {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1)}),
        ((1, 9, 50), {"kernel": (47,), "pad": (20,)}),
        ((1, 9, 12, 13, 8), {"kernel": (2, 2, 3), "pad": (0, 1, 1)}),
        ((2, 17, 5, 6), {"global_pool": True}),
        ((1, 2, 3, 256), {"kernel": (2, 2), "stride": (1, 2)}),  # rows that are folded at once
        ((1, 2, 3, 257), {"kernel": (2, 2), "stride": (1, 2)}),
        ((1, 2, 5, 20), {"kernel": (2, 2), "stride": (1, 3)}),  # elements that no window sees
        ((1, 2, 3, 4), {"kernel": (3, 3), "stride": (3, 3), "pad": (2, 2), "pooling_convention": "full"}),
    ],
)
def test_pooling(kind: dict, shape: tuple[int, ...], window: dict) -> None:
    layer_plans.verify("Pooling", kind | window, [_data(shape)])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("shape", "window"),
    [
        ((2, 3, 7, 6), {"kernel": (2, 6), "stride": (2, 1), "pad": (1, 0)}),
        ((2, 3, 21, 1), {"kernel": (3, 1), "stride": (2, 1), "pad": (1, 0)}),
        ((1, 2, 9, 3, 4), {"kernel": (2, 3, 4), "stride": (3, 1, 1), "pad": (1, 0, 0)}),
        ((2, 3, 5, 3, 4), {"global_pool": True}),
        ((2, 3, 40, 23), {"global_pool": True}),
        ((2, 3, 5, 6), {"kernel": (5, 6), "pad": (1, 0)}),
    ],
)
def test_windows_as_wide_as_the_image_in_float64(kind: dict, shape: tuple[int, ...], window: dict) -> None:
    layer_plans.verify("Pooling", kind | window, [_data(shape).astype(np.float64)], rtol=1e-12, atol=1e-12)


@pytest.mark.long
def test_global_mean_of_what_no_cache_holds() -> None:
    layer_plans.verify("Pooling", {"pool_type": "avg", "global_pool": True}, [_data((67, 3, 177, 179))])


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    size=st.integers(3, 10),
    kernel=st.integers(1, 4),
    stride=st.integers(1, 4),
    pad=st.integers(0, 3),
    convention=st.sampled_from(["valid", "full"]),
)
def test_pooling_of_any_geometry(
    kind: dict, size: int, kernel: int, stride: int, pad: int, convention: str
) -> None:
    kernel = min(kernel, size)
    pad = min(pad, kernel - 1)
    attrs = {
        "kernel": (kernel, kernel),
        "stride": (stride, 1),
        "pad": (pad, 0),
        "pooling_convention": convention,
    }
    data = _data((2, 3, size, size))
    if kind.get("p_value") == 3:
        data = np.abs(data)  # the root of what nearly cancels has few digits
    layer_plans.verify("Pooling", kind | attrs, [data])


def test_the_first_maximum_gets_the_gradient() -> None:
    layer_plans.verify("Pooling", {"kernel": (2, 2), "stride": (1, 1)}, [np.ones((1, 1, 4, 4), np.float32)])


@pytest.mark.parametrize("kind", KINDS[:3])
@pytest.mark.parametrize(
    "window", [{"kernel": (3, 2), "stride": (2, 1), "pad": (1, 0)}, {"global_pool": True}, {"kernel": (2, 2)}]
)
def test_channels_last(kind: dict, window: dict) -> None:
    layer_plans.verify("Pooling", kind | window | {"layout": "NHWC"}, [_data((2, 7, 8, 5))])


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_a_window_that_is_mostly_padding_takes_no_longer(kind: str) -> None:
    op = operators.get("Pooling")
    p = op.Param.parse({"kernel": (2**30, 2), "pad": (2**29, 0), "pool_type": kind})
    data = _data((1, 1, 4, 4))
    result = np.empty((1, 1, 5, 3), np.float32)
    layer_plans.run(layer_plans.prepare(op, p, [data], [result]), [data], [result])
    if kind == "max":
        np.testing.assert_array_equal(
            result[0, 0, 2], np.maximum(data[0, 0, :, :-1], data[0, 0, :, 1:]).max(0)
        )
    else:
        assert np.abs(result).max() < 1e-8


def test_a_maximum_passes_over_what_is_no_number() -> None:
    data = _data((1, 2, 6, 7))
    data[0, 0, 2, 3] = np.nan
    data[0, 1] = np.nan
    data[0, 0, 0, 0], data[0, 0, 5, 6] = np.inf, -np.inf
    op = operators.get("Pooling")
    p = op.Param.parse({"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "pooling_convention": "full"})
    output = np.empty((1, 2, 4, 4), np.float32)
    layer_plans.run(layer_plans.prepare(op, p, [data], [output]), [data], [output])
    lowest = np.finfo(np.float32).min
    padded = np.pad(
        np.where(np.isnan(data), lowest, data), ((0, 0), (0, 0), (1, 2), (1, 2)), constant_values=lowest
    )
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2, ::2]
    np.testing.assert_array_equal(output, windows.max((-1, -2))[:, :, :4, :4])
