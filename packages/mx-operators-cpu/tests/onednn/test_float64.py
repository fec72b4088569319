# SPDX-License-Identifier: Apache-2.0
"""Layers in float64, which loops of ours compute, and their gradients, against the references."""

from __future__ import annotations

from typing import Any

import numpy as np
import plans
import pytest

from mx_operators_cpu.library import native


def _verify(name: str, attrs: dict[str, Any], *shapes: tuple[int, ...], **more: Any) -> None:
    rng = np.random.default_rng(4)
    plans.verify(name, attrs, [rng.standard_normal(s) for s in shapes], rtol=1e-12, atol=1e-12, **more)


@pytest.mark.parametrize("no_bias", [False, True])
@pytest.mark.parametrize(("rows", "depth", "hidden"), [(1, 1, 1), (3, 5, 50), (33, 300, 65), (300, 7, 130)])
def test_fully_connected(rows: int, depth: int, hidden: int, no_bias: bool) -> None:
    shapes = ((rows, depth), (hidden, depth), (hidden,))[: 2 if no_bias else 3]
    _verify("FullyConnected", {"num_hidden": hidden, "no_bias": no_bias}, *shapes)


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (9, 131, 25), (270, 40, 49), (8, 24, 24), (2, 1100, 3)])
def test_dot(m: int, k: int, n: int, transpose_a: bool, transpose_b: bool) -> None:
    attrs = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    lhs, rhs = (k, m) if transpose_a else (m, k), (n, k) if transpose_b else (k, n)
    _verify("dot", attrs, lhs, rhs)
    _verify("batch_dot", attrs, (3, *lhs), (3, *rhs))
    _verify("_linalg_gemm2", attrs | {"alpha": -2.5}, (2, *lhs), (2, *rhs), gradient=False)
    _verify("_linalg_gemm", attrs | {"alpha": 3.0, "beta": 0.5}, lhs, rhs, (m, n), gradient=False)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_of_nothing(dtype: Any) -> None:
    """Sums over no element are 0; products without elements write nothing."""
    code = {np.float32: 0, np.float64: 1}[dtype]
    for m, k, n in ((3, 0, 4), (0, 3, 4), (3, 4, 0), (0, 0, 0)):
        given = [np.ones((2, m, k), dtype), np.ones((2, k, n), dtype)]
        out = np.full((2, m, n), 7, dtype)
        plan = native.product_plan(
            [(x.shape, code) for x in given], [(out.shape, code)],
            batch=2, m=m, k=k, n=n, transpose_a=False, transpose_b=False,
        )  # fmt: skip
        plans.run(plan, given, [out])
        assert not out.any()


#: kernel, stride, dilate, pad, spatial extents
WINDOWS = [
    ((3, 3), (1, 1), (1, 1), (1, 1), (5, 9)),
    ((3, 2), (2, 3), (1, 2), (0, 4), (8, 7)),
    ((1, 1), (1, 1), (1, 1), (0, 0), (6, 31)),
    ((2, 2), (3, 3), (1, 1), (1, 0), (9, 8)),
    ((3,), (1,), (3,), (2,), (40,)),
    ((4,), (7,), (1,), (3,), (5,)),
    ((3, 1, 2), (1, 2, 1), (1, 1, 1), (1, 0, 1), (3, 4, 5)),
]


@pytest.mark.parametrize("no_bias", [False, True])
@pytest.mark.parametrize("groups", [1, 3, 6])
@pytest.mark.parametrize(
    ("window", "last"), [*((w, False) for w in WINDOWS), *((w, True) for w in WINDOWS if len(w[0]) > 1)]
)
def test_convolution(window: tuple[tuple[int, ...], ...], groups: int, last: bool, no_bias: bool) -> None:
    kernel, stride, dilate, pad, sizes = window
    attrs = {
        "kernel": kernel, "stride": stride, "dilate": dilate, "pad": pad, "num_filter": 12, "num_group": groups,
        "no_bias": no_bias,
    }  # fmt: skip
    if last:
        attrs["layout"] = {2: "NHWC", 3: "NDHWC"}[len(kernel)]
    data = (2, *sizes, 6) if last else (2, 6, *sizes)
    weight = (12, *kernel, 6 // groups) if last else (12, 6 // groups, *kernel)
    _verify("Convolution", attrs, *(data, weight, (12,))[: 2 if no_bias else 3])


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("window", WINDOWS)
def test_deconvolution(window: tuple[tuple[int, ...], ...], groups: int) -> None:
    kernel, stride, dilate, pad, sizes = window
    pad = tuple(min(p, (k - 1) * d // 2) for p, k, d in zip(pad, kernel, dilate, strict=True))
    attrs = {
        "kernel": kernel, "stride": stride, "dilate": dilate, "pad": pad, "num_filter": 9, "num_group": groups,
        "no_bias": False, "adj": tuple(s - 1 for s in stride),
    }  # fmt: skip
    _verify("Deconvolution", attrs, (2, 6, *sizes), (6, 9 // groups, *kernel), (9,))


def test_a_convolution_larger_than_its_blocks() -> None:
    attrs = {"kernel": (3, 3), "pad": (1, 1), "num_filter": 300, "no_bias": True}
    _verify("Convolution", attrs, (1, 40, 20, 30), (300, 40, 3, 3))
