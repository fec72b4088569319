# SPDX-License-Identifier: Apache-2.0
"""Winograd convolutions: every geometry, layout and request; how exact they are; how to do without."""

import numpy as np
import plans
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mx_core import operators
from mx_core.errors import ArgumentError
from mx_operators_cpu.library import native


def _arrays(
    rng: np.random.Generator, shape: tuple[int, ...], filters: int, layout: str, bias: bool
) -> list[np.ndarray]:
    """Data, weight and bias; `shape` is (N, C, H, W)."""
    arrays = [
        rng.standard_normal(shape),
        rng.standard_normal((filters, shape[1], 3, 3)) / 3 / shape[1] ** 0.5,
    ]
    if layout == "NHWC":
        arrays = [np.moveaxis(a, 1, -1) for a in arrays]
    arrays += [rng.standard_normal(filters)] if bias else []
    return [np.ascontiguousarray(a, np.float32) for a in arrays]


def _output(shape: tuple[int, ...], filters: int, pad: tuple[int, int]) -> tuple[int, ...]:
    return (shape[0], filters, *(n + 2 * p - 2 for n, p in zip(shape[2:], pad, strict=True)))


def _forward(shape: tuple[int, ...], filters: int, arrays: list[np.ndarray]) -> np.ndarray:
    op = operators.get("Convolution")
    p = op.Param.parse({"kernel": (3, 3), "pad": (1, 1), "num_filter": filters, "no_bias": True})
    out = np.empty(_output(shape, filters, (1, 1)), np.float32)
    plans.run(plans.prepare(op, p, arrays, [out]), arrays, [out])
    return out


@settings(max_examples=15, deadline=None)
@given(
    batch=st.integers(1, 3),
    channels=st.sampled_from([32, 48, 80]),
    filters=st.sampled_from([32, 64, 112]),
    size=st.tuples(st.integers(6, 25), st.integers(6, 25)),
    pad=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    layout=st.sampled_from(["NCHW", "NHWC"]),
    bias=st.booleans(),
)
def test_every_geometry(
    batch: int,
    channels: int,
    filters: int,
    size: tuple[int, int],
    pad: tuple[int, int],
    layout: str,
    bias: bool,
) -> None:
    attrs = {"kernel": (3, 3), "pad": pad, "num_filter": filters, "layout": layout, "no_bias": not bias}
    arrays = _arrays(np.random.default_rng(2), (batch, channels, *size), filters, layout, bias)
    plans.verify("Convolution", attrs, arrays)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_large_layers(rng: np.random.Generator, threads: int) -> None:
    shape, filters = (2, 160, 20, 24), 256
    data, weight = _arrays(rng, shape, filters, "NCHW", bias=False)
    op = operators.get("Convolution")
    p = op.Param.parse({"kernel": (3, 3), "pad": (1, 1), "num_filter": filters, "no_bias": True})
    (expected,) = op.reference(p, [data, weight], None)
    out = np.empty(_output(shape, filters, (1, 1)), np.float32)
    plans.run(plans.prepare(op, p, [data, weight], [out]), [data, weight], [out], threads=threads)
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.skipif(native.instruction_set() != "avx512", reason="needs AVX-512")
def test_it_is_used_where_it_pays_and_allowed(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape, filters = (2, 64, 24, 24), 64
    arrays = _arrays(rng, shape, filters, "NCHW", bias=False)
    monkeypatch.setenv("MX_WINOGRAD", "0")
    direct = _forward(shape, filters, arrays)
    monkeypatch.setenv("MX_WINOGRAD", "1")
    winograd = _forward(shape, filters, arrays)
    difference = np.abs(winograd - direct).max() / np.abs(direct).max()
    assert 0 < difference < 3e-6


def test_another_setting_is_refused(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MX_WINOGRAD", "yes")
    with pytest.raises(ArgumentError, match=r"\[MX_WINOGRAD\]: expected 0 or 1, got 'yes'"):
        _forward((1, 16, 8, 8), 16, _arrays(rng, (1, 16, 8, 8), 16, "NCHW", bias=False))
