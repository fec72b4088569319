# SPDX-License-Identifier: Apache-2.0
"""Indexing equals its references; bad indices are errors."""

from __future__ import annotations

import numpy as np
import pytest
from vector_plans import WRITE, array, call_of, plan_of, run, verify

from mx_core import operators
from mx_core.errors import IndexOutOfBoundsError


@pytest.mark.parametrize("mode", ["clip", "wrap"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("index_type", ["float32", "int32", "int64", "uint8"])
def test_take(mode: str, axis: int, index_type: str, rng: np.random.Generator) -> None:
    a = array(rng, (4, 5, 3))
    indices = rng.integers(0 if index_type == "uint8" else -7, 9, (2, 6)).astype(index_type)
    verify("take", {"axis": axis, "mode": mode}, [a, indices])
    out = np.take(a, np.zeros((2, 6), int), axis)
    verify("_backward_take", {"axis": axis, "mode": mode}, [out, a, indices])


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_embedding(dtype: str, rng: np.random.Generator) -> None:
    attrs = {"input_dim": 7, "output_dim": 33, "dtype": dtype}
    data = rng.integers(-1, 9, (4, 3)).astype(np.float32)
    verify("Embedding", attrs, [data, array(rng, (7, 33), dtype)])
    verify(
        "_backward_Embedding",
        attrs,
        [array(rng, (4, 3, 33), dtype), data],
        rtol=5e-3 if dtype == "float16" else None,
    )


@pytest.mark.parametrize("attrs", [{"axis": 1}, {"axis": -1, "keepdims": True}, {"axis": 0, "mode": "wrap"}])
def test_pick(attrs: dict[str, object], rng: np.random.Generator) -> None:
    data = array(rng, (4, 5, 3))
    axis = int(attrs["axis"])  # type: ignore[call-overload]
    shape = list(data.shape)
    del shape[axis]
    index = rng.integers(-2, 7, shape).astype(np.float32)
    verify("pick", attrs, [data, index])
    head = np.expand_dims(array(rng, shape), axis) if "keepdims" in attrs else array(rng, shape)
    verify("_backward_pick", attrs, [head, data, index])


def test_rows_and_classes(rng: np.random.Generator) -> None:
    verify("batch_take", {}, [array(rng, (4, 5)), np.array([0, 4, 9, -1], np.int32)])
    verify("one_hot", {"depth": 5}, [np.array([[0, 4, 5], [-1, 2, 1]], np.float32)])
    verify(
        "one_hot", {"depth": 3, "on_value": 7, "off_value": 2, "dtype": "int32"}, [np.array([0, 2], np.int64)]
    )


def test_several_indices(rng: np.random.Generator) -> None:
    data = array(rng, (4, 5, 3))
    indices = np.array([[0, 3, -1, 3], [4, 0, 2, 0]], np.int32)
    verify("gather_nd", {}, [data, indices])
    verify("_backward_gather_nd", {}, [array(rng, (4, 3)), data, indices])
    verify("scatter_nd", {"shape": (4, 5, 3)}, [array(rng, (4, 3)), indices])


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8"])
def test_where(dtype: str, rng: np.random.Generator) -> None:
    x, y = array(rng, (4, 5), dtype), array(rng, (4, 5), dtype)
    verify("where", {}, [array(rng, (4, 5), dtype) > 0, x, y] if dtype != "int64" else [x, x, y])
    verify("where", {}, [array(rng, (4,), dtype), x, y])


def test_index_out_of_bounds_is_an_error(rng: np.random.Generator) -> None:
    op = operators.get("take")
    inputs = [array(rng, (4, 3)), np.array([1, 4], np.int32)]
    call = call_of(op, op.Param.parse({"mode": "raise"}, op="take"), inputs)
    with pytest.raises(IndexOutOfBoundsError, match="index 4 is out of bounds for extent 4"):
        run(plan_of(call), inputs, [np.zeros((2, 3), np.float32)], [WRITE])
