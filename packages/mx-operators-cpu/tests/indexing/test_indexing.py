# SPDX-License-Identifier: Apache-2.0
"""Indexing equals its references; bad indices are errors."""

from __future__ import annotations

import numpy as np
import pytest
from plans import WRITE, array, call_of, plan_of, run, verify

from mx_core import dtypes, operators
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


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("columns", [1, 8, 1100])
def test_sixteen_bit_gradients_are_summed_in_float32(
    dtype: str, columns: int, rng: np.random.Generator
) -> None:
    """One by one, 5,000 ones end at 2,048 in float16 and at 256 in bfloat16."""
    n = 5000
    head = np.ones((n, columns)).astype(dtypes.numpy_dtype(dtypes.code(dtype)))
    table, indices = np.zeros((4, columns), head.dtype), rng.choice([1, 3], n).astype(np.float32)
    attrs = {"input_dim": 4, "output_dim": columns, "dtype": dtype}
    want = np.bincount(indices.astype(int), minlength=4)[:, None] * np.ones(columns)
    for name, given, inputs in (
        ("_backward_Embedding", attrs, [head, indices]),
        ("_backward_take", {}, [head, table, indices]),
        (
            "_backward_take",
            {"axis": 1},
            [np.ascontiguousarray(head.T), np.ascontiguousarray(table.T), indices],
        ),
        ("_backward_gather_nd", {}, [head, table, indices[None]]),
    ):
        verify(name, given, inputs)
        op = operators.get(name)
        got = op.reference(op.Param.parse(given, op=name), inputs, None)[0].astype(np.float64)
        np.testing.assert_allclose(got if got.shape == want.shape else got.T, want, rtol=4e-3)
    flat = np.zeros((1, 4), head.dtype)
    verify("_backward_pick", {"axis": None}, [head[:, 0].copy(), flat, indices])


def test_unsigned_indices_above_the_largest_signed_one(rng: np.random.Generator) -> None:
    a, indices = array(rng, (4, 3)), np.array([2**63, 1, 2**64 - 1], np.uint64)
    verify("take", {"mode": "clip"}, [a, indices])
    np.testing.assert_array_equal(nd_take(a, indices, "clip"), a[[3, 1, 3]])
    verify("take", {"mode": "wrap"}, [a, indices])
    np.testing.assert_array_equal(nd_take(a, indices, "wrap"), a[[0, 1, 3]])
    for name, attrs, index in (("take", {"mode": "raise"}, indices), ("gather_nd", {}, indices[None])):
        op = operators.get(name)
        call = call_of(op, op.Param.parse(attrs, op=name), [a, index])
        with pytest.raises(IndexOutOfBoundsError, match="index 9223372036854775808 is out of bounds"):
            run(plan_of(call), [a, index], [np.zeros((3, 3), np.float32)], [WRITE])


def nd_take(a: np.ndarray, indices: np.ndarray, mode: str) -> np.ndarray:
    """What the reference says."""
    op = operators.get("take")
    result: np.ndarray = op.reference(op.Param.parse({"mode": mode}, op="take"), [a, indices], None)[0]
    return result
