# SPDX-License-Identifier: Apache-2.0
"""Sorting and its relatives against their references: types, axes, directions, ties, NaN, lengths."""

from __future__ import annotations

from typing import Any

import numpy as np
import plans
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

TYPES = (*plans.FLOATS, *plans.INTEGERS)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize(("shape", "axis"), [((3, 40), -1), ((5, 7, 3), 1), ((4, 6), None), ((9,), 0)])
def test_sort_and_argsort(
    rng: np.random.Generator, dtype: str, ascending: bool, shape: tuple[int, ...], axis: int | None
) -> None:
    x = plans.array(rng, shape, dtype)
    attrs = {"axis": axis, "is_ascend": ascending}
    plans.verify("sort", attrs, [x])
    plans.verify("argsort", {**attrs, "dtype": "int32"}, [x])
    head = plans.array(rng, (x.size,) if axis is None else shape, dtype)
    plans.verify("_backward_sort", attrs, [head, x])


@pytest.mark.parametrize("ret", ["both", "indices", "mask", "value"])
@pytest.mark.parametrize("k", [0, 1, 3, 40])
@pytest.mark.parametrize("ascending", [True, False])
def test_topk(rng: np.random.Generator, ret: str, k: int, ascending: bool) -> None:
    x = np.round(plans.array(rng, (4, 40, 2)), 1)  # with ties
    attrs = {"k": k, "axis": 1, "ret_typ": ret, "is_ascend": ascending}
    plans.verify("topk", attrs, [x], threads=2)
    if ret in ("both", "value"):
        head = plans.array(rng, (4, k or 40, 2))
        plans.verify("_backward_topk", attrs, [head, x])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint64", "int8"])
@pytest.mark.parametrize("n", [513, 3000, 70000])
@pytest.mark.parametrize("k", [0, 5, 400])
def test_long_rows(rng: np.random.Generator, dtype: str, n: int, k: int) -> None:
    if dtype in plans.FLOATS:
        x = rng.standard_normal((2, n)).astype(dtype)
    else:
        limits = np.iinfo(dtype)
        x = rng.integers(limits.min, limits.max, (2, n), dtype=dtype, endpoint=True)
    for ascending in (True, False):
        attrs = {"k": k, "ret_typ": "both", "dtype": "int64", "is_ascend": ascending}
        plans.verify("topk", attrs, [x], threads=2)


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(
    x=hnp.arrays(np.float32, st.integers(1, 600), elements=st.sampled_from(
        [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-42, 3e38]
    )),
    ascending=st.booleans(),
)  # fmt: skip
def test_ties_and_special_values_keep_their_order(x: Any, ascending: bool) -> None:
    plans.verify("argsort", {"is_ascend": ascending, "dtype": "int32"}, [x])
    plans.verify("topk", {"is_ascend": ascending, "k": min(3, x.size)}, [x])
