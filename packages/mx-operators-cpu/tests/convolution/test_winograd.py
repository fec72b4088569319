# SPDX-License-Identifier: Apache-2.0
"""Winograd convolutions: every geometry, layout and request; how exact they are; how to do without."""

from __future__ import annotations

from typing import Any

import layer_plans
import numpy as np
import plans
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mx_core import operators
from mx_core.errors import ArgumentError
from mx_operators_cpu.library import native

#: of the largest result, with 64 to 160 channels: of float32 and of float64
BOUND = {"float32": 1e-5, "float64": 1.1e-14}


def _arrays(
    rng: np.random.Generator, shape: tuple[int, ...], filters: int, layout: str, bias: bool, dtype: str
) -> list[np.ndarray]:
    """Data, weight and bias; `shape` is (N, C, H, W)."""
    arrays = [
        rng.standard_normal(shape),
        rng.standard_normal((filters, shape[1], 3, 3)) / 3 / shape[1] ** 0.5,
    ]
    if layout == "NHWC":
        arrays = [np.moveaxis(a, 1, -1) for a in arrays]
    arrays += [rng.standard_normal(filters)] if bias else []
    return [np.ascontiguousarray(a, dtype) for a in arrays]


def _output(shape: tuple[int, ...], filters: int, pad: tuple[int, int]) -> tuple[int, ...]:
    return (shape[0], filters, *(n + 2 * p - 2 for n, p in zip(shape[2:], pad, strict=True)))


def _forward(shape: tuple[int, ...], filters: int, arrays: list[np.ndarray], threads: int = 2) -> np.ndarray:
    op = operators.get("Convolution")
    p = op.Param.parse({"kernel": (3, 3), "pad": (1, 1), "num_filter": filters, "no_bias": True})
    out = np.empty(_output(shape, filters, (1, 1)), arrays[0].dtype)
    layer_plans.run(layer_plans.prepare(op, p, arrays, [out]), arrays, [out], threads=threads)
    return out


def _exact(data: np.ndarray, weight: np.ndarray) -> Any:
    """The convolution with a pad of 1, summed in extended precision."""
    height, width = data.shape[2:]
    padded = np.pad(data, ((0, 0), (0, 0), (1, 1), (1, 1))).astype(np.longdouble)
    taps = weight.astype(np.longdouble)
    return sum(
        np.einsum("nchw,kc->nkhw", padded[:, :, i : i + height, j : j + width], taps[:, :, i, j])
        for i in range(3)
        for j in range(3)
    )


@pytest.mark.skipif(native.instruction_set() != "avx512", reason="Winograd needs AVX-512")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_not_finite_reaches_the_tiles_around_it_and_nothing_else(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape, pixel = (2, 64, 56, 56), (20, 33)
    data, weight = _arrays(np.random.default_rng(0), shape, 64, "NCHW", False, dtype)
    data[(0, 0, *pixel)] = np.inf
    rows, columns = np.indices(shape[2:])
    apart = np.maximum(abs(rows - pixel[0]), abs(columns - pixel[1]))
    monkeypatch.setenv("MX_WINOGRAD", "0")
    direct = _forward(shape, 64, [data, weight])
    assert (~np.isfinite(direct[0]) == (apart <= 1)).all()
    monkeypatch.delenv("MX_WINOGRAD")
    found = _forward(shape, 64, [data, weight])
    assert not np.isfinite(found[0, :, apart <= 1]).any()
    assert np.isfinite(found[0, :, apart > 5]).all() and np.isfinite(found[1]).all()
    assert not np.isfinite(found[0, :, apart == 2]).all()  # where MXNet's results are finite


@pytest.mark.long
@settings(max_examples=15, deadline=None)
@given(
    batch=st.integers(1, 3),
    channels=st.sampled_from([32, 48, 80]),
    filters=st.sampled_from([32, 64, 112]),
    size=st.tuples(st.integers(6, 25), st.integers(6, 25)),
    pad=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    layout=st.sampled_from(["NCHW", "NHWC"]),
    bias=st.booleans(),
    dtype=st.sampled_from(["float32", "float64"]),
)
def test_every_geometry(
    batch: int,
    channels: int,
    filters: int,
    size: tuple[int, int],
    pad: tuple[int, int],
    layout: str,
    bias: bool,
    dtype: str,
) -> None:
    attrs = {"kernel": (3, 3), "pad": pad, "num_filter": filters, "layout": layout, "no_bias": not bias}
    arrays = _arrays(np.random.default_rng(2), (batch, channels, *size), filters, layout, bias, dtype)
    rtol, atol = (1e-12, 1e-12) if dtype == "float64" else (1e-4, 1e-5)
    layer_plans.verify("Convolution", attrs, arrays, rtol=rtol, atol=atol)


def test_deconvolutions_in_float64() -> None:
    """They are gradients of data, with a bias."""
    arrays = _arrays(np.random.default_rng(3), (2, 40, 23, 19), 40, "NCHW", True, "float64")
    attrs = {"kernel": (3, 3), "pad": (1, 1), "num_filter": 40, "no_bias": False}
    layer_plans.verify("Deconvolution", attrs, arrays, rtol=1e-12, atol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize(
    ("shape", "filters", "pad"),
    [
        ((3, 32, 40, 41), 40, (1, 2)),
        ((17, 96, 12, 11), 160, (1, 1)),  # parts of some images, the last of fewer
        ((5, 64, 30, 70), 64, (0, 3)),  # rows of several images are copied at once
        ((3, 256, 10, 26), 320, (2, 0)),  # the team sums one group
    ],
)
def test_a_few_images_at_once_in_float64(shape: tuple[int, ...], filters: int, pad: tuple[int, int]) -> None:
    """Batches whose copies with channels last would leave the caches."""
    arrays = _arrays(np.random.default_rng(5), shape, filters, "NCHW", True, "float64")
    attrs = {"kernel": (3, 3), "pad": pad, "num_filter": filters, "no_bias": False}
    layer_plans.verify("Convolution", attrs, arrays, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", [(256, 56, 56), (256, 14, 14), (64, 112, 112)])
@pytest.mark.parametrize("output", ["result", "weight"])
def test_larger_batches_need_no_more_scratch_memory(shape: tuple[int, ...], output: str) -> None:
    """In float64: of images with channels first a bounded part is copied."""
    op = operators.get("Convolution" if output == "result" else "_backward_Convolution")
    p = op.Param.parse({"kernel": (3, 3), "pad": (1, 1), "num_filter": shape[0], "no_bias": True})
    weight = np.empty((shape[0], shape[0], 3, 3))
    found = []
    for batch in (32, 96):
        data = np.empty((batch, *shape))
        forward = output == "result"
        inputs, outputs = ([data, weight], [data]) if forward else ([data, data, weight], [data, weight])
        found.append(plans.scratch_bytes(layer_plans.prepare(op, p, inputs, outputs)))
    assert 0 < found[0] == found[1] or native.instruction_set() != "avx512"


@pytest.mark.parametrize("dtype", BOUND)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_large_layers(rng: np.random.Generator, threads: int, dtype: str) -> None:
    shape, filters = (2, 160, 20, 24), 256
    arrays = _arrays(rng, shape, filters, "NCHW", False, dtype)
    op = operators.get("Convolution")
    p = op.Param.parse({"kernel": (3, 3), "pad": (1, 1), "num_filter": filters, "no_bias": True})
    (expected,) = op.reference(p, arrays, None)
    out = _forward(shape, filters, arrays, threads)
    np.testing.assert_allclose(out, expected, rtol=0, atol=BOUND[dtype] * np.abs(expected).max())


@pytest.mark.parametrize("dtype", BOUND)
def test_results_are_exact_to_the_stated_bound(rng: np.random.Generator, dtype: str) -> None:
    shape, filters = (2, 64, 24, 24), 64
    arrays = _arrays(rng, shape, filters, "NCHW", False, dtype)
    exact = _exact(*arrays)
    error = np.abs(_forward(shape, filters, arrays) - exact).max() / np.abs(exact).max()
    assert error < BOUND[dtype] / 2


@pytest.mark.skipif(native.instruction_set() != "avx512", reason="needs AVX-512")
@pytest.mark.parametrize(("dtype", "bound"), [("float32", 3e-6), ("float64", 6e-15)])
def test_it_is_used_where_it_pays_and_allowed(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, dtype: str, bound: float
) -> None:
    shape, filters = (2, 64, 24, 24), 64
    arrays = _arrays(rng, shape, filters, "NCHW", False, dtype)
    monkeypatch.setenv("MX_WINOGRAD", "0")
    direct = _forward(shape, filters, arrays)
    monkeypatch.setenv("MX_WINOGRAD", "1")
    winograd = _forward(shape, filters, arrays)
    difference = np.abs(winograd - direct).max() / np.abs(direct).max()
    assert 0 < difference < bound


def test_another_setting_is_refused(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MX_WINOGRAD", "yes")
    with pytest.raises(ArgumentError, match=r"\[MX_WINOGRAD\]: expected 0 or 1, got 'yes'"):
        _forward((1, 16, 8, 8), 16, _arrays(rng, (1, 16, 8, 8), 16, "NCHW", False, "float32"))
