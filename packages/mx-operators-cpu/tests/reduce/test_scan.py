# SPDX-License-Identifier: Apache-2.0
"""Running sums, counts, moments and windows equal their references, at any size and value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from plans import array, call_of, plan_of, run, verify

from mx_core import operators
from mx_core.errors import ArgumentError


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "int64"])
@pytest.mark.parametrize("shape", [(70_001,), (3, 40), (2, 5, 300), (0, 3), (4, 0), (1,)])
@pytest.mark.parametrize("name", ["_np_cumsum", "_backward_np_cumsum"])
def test_running_sums(name: str, shape: tuple[int, ...], dtype: str, rng: np.random.Generator) -> None:
    for axis in (None, *range(len(shape))):
        x = array(rng, shape, dtype)
        given = [x]
        if name.startswith("_backward"):
            given = [x.reshape(-1) if axis is None else x, x]
        rtol = {"float16": 2e-2, "bfloat16": 2e-2}.get(dtype, 1e-4)
        for threads in (1, 3):
            verify(name, {"axis": axis}, given, rtol=rtol, threads=threads)


def test_order_of_additions_is_fixed(rng: np.random.Generator) -> None:
    x = [array(rng, (300_000,))]
    op = operators.get("_np_cumsum")
    plan = plan_of(call_of(op, op.Param.parse({}, op=op.name), x))
    one, other = (np.zeros(300_000, np.float32) for _ in range(2))
    run(plan, x, [one], [1], threads=1)
    run(plan, x, [other], [1], threads=4)
    assert (one == other).all()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "uint8", "int8"])
@pytest.mark.parametrize("bins", [1, 7, 1000])
def test_counts(dtype: str, bins: int, rng: np.random.Generator) -> None:
    x = array(rng, (100_000,), dtype)
    if x.dtype.kind == "f":
        x[:6] = [np.nan, np.inf, -np.inf, -2.0, 2.0, 0.0]
    for ends in ((-2.0, 2.0), (0.1, 0.4), (-9, 9)):
        verify("_histogram", {"bin_cnt": bins, "range": ends}, [x], threads=3)


def test_counts_between_edges(rng: np.random.Generator) -> None:
    x = np.concatenate([array(rng, (5000,)), np.float32([np.nan, 1, 1, 2, 0])])
    for edges in ([0, 1], [-1, 0, 0, 0.5, 1, 1], [1, 1], [-np.inf, 0, np.inf]):
        verify("_histogram", {}, [x, np.float32(edges)])
    for edges in ([1, 0], [np.nan, 1], [0, np.nan, 1]):
        with pytest.raises(ArgumentError, match="ascending"):
            verify("_histogram", {}, [x, np.float32(edges)])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_moments(dtype: str, rng: np.random.Generator) -> None:
    for shape, axes in (((4, 500), (1,)), ((3, 4, 5), (0, 2)), ((7,), (0,)), ((0, 3), (0,)), ((2, 0), (1,))):
        for kept in (True, False):
            x = array(rng, shape, dtype) + np.array(30, dtype)
            attrs = {"axes": axes, "keepdims": kept}
            verify("moments", attrs, [x], rtol=None if dtype != "float32" else 1e-5)
            op = operators.get("moments")
            like = call_of(op, op.Param.parse(attrs, op=op.name), [x]).outputs[0].shape
            heads = [array(rng, like, dtype) for _ in range(3)]
            verify(
                "_backward_moments",
                attrs,
                [*heads[:2], x, heads[2]],
                rtol=2e-3 if dtype == "float16" else 1e-5,
            )


WINDOWS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 9, 8), {"kernel": (3, 3), "pad": (1, 1)}),
    ((1, 2, 7, 11), {"kernel": (2, 3), "stride": (2, 3), "dilate": (2, 1), "pad": (3, 4)}),
    ((2, 1, 30), {"kernel": (5,), "stride": (4,)}),
    ((1, 2, 4, 5, 6), {"kernel": (2, 2, 3), "pad": (1, 0, 2), "stride": (1, 2, 1)}),
    ((1, 1, 2, 2), {"kernel": (2, 2), "pad": (9, 9), "stride": (7, 7)}),
    ((0, 2, 4, 4), {"kernel": (2, 2)}),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize(("shape", "attrs"), WINDOWS)
def test_windows(shape: tuple[int, ...], attrs: dict[str, Any], dtype: str, rng: np.random.Generator) -> None:
    x = array(rng, shape, dtype)
    verify("im2col", attrs, [x])
    op = operators.get("im2col")
    columns = array(rng, call_of(op, op.Param.parse(attrs, op=op.name), [x]).outputs[0].shape, dtype)
    verify("_backward_im2col", attrs, [columns, x])
    verify("col2im", {**attrs, "output_size": shape[2:]}, [columns])
