# SPDX-License-Identifier: Apache-2.0
"""Several weights updated at once equal their references; checks see every number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from plans import array, call_of, plan_of, run, verify

from mx_core import operators

SHAPES = ((3, 4), (5000,), (1,), (0, 2))
RTOL = {"float32": 5e-6, "float16": 4e-3, "bfloat16": 4e-2}
PRELOADED = [f"preloaded_multi_{name}" for name in (
    "sgd_update", "sgd_mom_update", "mp_sgd_update", "mp_sgd_mom_update")]  # fmt: skip


def _weights(name: str, rng: np.random.Generator, dtype: str) -> list[np.ndarray]:
    """All arrays of all weights; states in float32 beside a master copy."""
    own = operators.get(name).own  # type: ignore[attr-defined]
    made = []
    for shape in SHAPES:
        for part in own:
            state = part not in ("weight", "grad")
            x = array(rng, shape, "float32" if state and "weight32" in own else dtype)
            made.append(np.abs(x) if part == "var" else x)
    return made


@pytest.mark.parametrize("name", PRELOADED)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_rates_in_arrays(name: str, dtype: str, rng: np.random.Generator) -> None:
    rates = [np.abs(array(rng, (len(SHAPES),))) for _ in range(2)]
    attrs: dict[str, Any] = {"num_weights": len(SHAPES), "rescale_grad": 0.5, "clip_gradient": 0.4}
    if "mom" in name:
        attrs["momentum"] = 0.9
    verify(name, attrs, [*_weights(name, rng, dtype), *rates], rtol=RTOL[dtype])


@pytest.mark.parametrize("name", ["_multi_adamw_update", "_multi_mp_adamw_update"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("scale", [0.5, 0.0, np.inf, np.nan])
def test_adamw_of_several(name: str, dtype: str, scale: float, rng: np.random.Generator) -> None:
    n = len(SHAPES)
    attrs = {"lrs": (0.1,) * n, "wds": (0.01,) * n, "etas": (0.9, 1.0, 0.5, 1.0), "num_weights": n}
    verify(name, attrs, [*_weights(name, rng, dtype), np.array([scale], np.float32)], rtol=RTOL[dtype])


@pytest.mark.parametrize("name", ["_multi_lamb_update", "_multi_mp_lamb_update"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("corrected", [True, False])
def test_lamb_of_several(name: str, dtype: str, corrected: bool, rng: np.random.Generator) -> None:
    n = len(SHAPES)
    attrs = {
        "learning_rates": (0.1,) * n, "wds": (0.01,) * n, "step_count": (1, 3, 7, 1), "num_tensors": n,
        "bias_correction": corrected, "lower_bound": 0.1, "upper_bound": 9.0, "clip_gradient": 0.7,
    }  # fmt: skip
    verify(name, attrs, _weights(name, rng, dtype), rtol=RTOL[dtype])


def test_history_per_row(rng: np.random.Generator) -> None:
    for shape in ((7, 300), (3, 1), (0, 4), (4, 0)):
        inputs = [array(rng, shape), array(rng, shape), np.abs(array(rng, (shape[0], 1)))]
        attrs = {"lr": 0.1, "rescale_grad": 0.5, "clip_gradient": 0.4}
        verify("_contrib_group_adagrad_update", attrs, inputs, rtol=5e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32"])
@pytest.mark.parametrize("bad", [None, np.nan, np.inf, -np.inf])
def test_every_number_is_looked_at(dtype: str, bad: float | None, rng: np.random.Generator) -> None:
    arrays = [array(rng, shape, dtype) for shape in ((200_001,), (0,), (3, 3))]
    places = [(0, 0), (0, 65_535), (0, 200_000), (2, 8)]
    for which, place in places if bad is not None and dtype != "int32" else places[:1]:
        given = [x.copy() for x in arrays]
        if bad is not None and dtype != "int32":
            given[which].reshape(-1)[place] = bad
        verify("multi_all_finite", {"num_arrays": 3}, given, threads=2)


def test_sums_of_squares_and_rates(rng: np.random.Generator) -> None:
    arrays = [array(rng, shape) for shape in SHAPES]
    verify("multi_sum_sq", {"num_arrays": len(arrays)}, arrays)
    sums = [np.abs(array(rng, (6,))) for _ in range(4)]
    sums[1][0] = sums[2][1] = 0
    sums[1][2] = np.nan
    verify("multi_lars", {"eta": 0.01, "eps": 1e-8, "rescale_grad": 0.5}, sums)


def test_arrays_are_cleared(rng: np.random.Generator) -> None:
    arrays = [array(rng, (300_000,)), array(rng, (5,), "int64"), array(rng, (0,), "float16")]
    op = operators.get("reset_arrays")
    plan = plan_of(call_of(op, op.Param.parse({"num_arrays": 3}, op=op.name), arrays))
    run(plan, arrays, [], [], threads=2)
    assert all(not x.any() for x in arrays)
