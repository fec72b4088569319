# SPDX-License-Identifier: Apache-2.0
"""Random numbers are those of the references, whatever the number of threads."""

from __future__ import annotations

import numpy as np
import plans
import pytest
from ml_dtypes import bfloat16
from plans import FLOATS, array, call_of, plan_of, run, verify

from mx_core import operators
from mx_core.errors import ArgumentError

STREAM = (0x1234567890ABCDEF, 77)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(1,), (7, 3), (50_001,), (0,)])
@pytest.mark.parametrize("threads", [1, 2])
def test_floats(dtype: str, shape: tuple[int, ...], threads: int) -> None:
    place = {"shape": shape, "dtype": dtype}
    verify("_random_uniform", {"low": -2.0, "high": 3.0, **place}, [], random=STREAM, threads=threads)
    verify("_random_normal", {"loc": 1.0, "scale": 2.0, **place}, [], random=STREAM, threads=threads)
    if dtype in ("float32", "float64"):
        verify("_random_exponential", {"lam": 2.0, **place}, [], random=STREAM, threads=threads)


def test_integers_and_like(rng: np.random.Generator) -> None:
    verify("_random_randint", {"low": -5, "high": 1000, "shape": (101,)}, [], random=STREAM)
    verify(
        "_random_randint",
        {"low": -(2**62), "high": 2**62, "shape": (9,), "dtype": "int64"},
        [],
        random=STREAM,
    )
    verify("_random_uniform_like", {}, [array(rng, (5, 7))], random=STREAM)
    verify("_random_normal_like", {"scale": 0.0}, [array(rng, (5, 7))], random=STREAM)


@pytest.mark.parametrize("dtype", FLOATS)
def test_dropout(dtype: str, rng: np.random.Generator) -> None:
    x = array(rng, (33, 100), dtype)
    for p in (0.0, 0.3, 1.0):
        verify("Dropout", {"p": p}, [x], random=STREAM)
    verify("Dropout", {"p": 0.5}, [x], random=STREAM, is_train=False)
    verify("Dropout", {"p": 0.5, "mode": "always"}, [x], random=STREAM, is_train=False)


@pytest.mark.parametrize("dtype", [np.float16, bfloat16, np.float64])
def test_inference_of_dropout_keeps_bits(dtype: type) -> None:
    """Of every NaN, too, and in place."""
    item = np.dtype(dtype).itemsize
    bits = np.arange(2**16, dtype=np.uint16) if item == 2 else np.arange(2**12, dtype=np.uint64) << 52 | 1
    x = bits.view(dtype)
    op = operators.get("Dropout")
    call = call_of(op, op.Param.parse({}, op=op.name), [x], is_train=False)
    outputs = [np.full_like(x, 2) for _ in call.outputs]
    plan = plan_of(call)
    assert plan is not None
    for target in (outputs[0], x):
        plans.run(plan, [x], [target, *outputs[1:]], [plans.WRITE] * len(outputs))
        np.testing.assert_array_equal(target.view(bits.dtype), bits)
    assert all((mask == 1).all() for mask in outputs[1:])


def test_wrong_parameters_are_errors() -> None:
    op = operators.get("_random_normal")
    plan = plan_of(call_of(op, op.Param.parse({"shape": (3,)}, op=op.name), []))
    with pytest.raises(ArgumentError, match="scale: expected at least 0"):
        run(plan, [], [np.zeros(3, np.float32)], [1], scalars=(0.0, -1.0))
