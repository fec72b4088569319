# SPDX-License-Identifier: Apache-2.0
"""Optimizer steps equal their references, states included, and accept `out=weight`."""

from __future__ import annotations

import numpy as np
import pytest
from vector_plans import INPLACE, array, call_of, close, plan_of, run, verify

from mx_core import operators
from mx_core.operator import ReferenceContext
from mx_operators_cpu.vector.optimizer import STEPS

MORE = {"ftml_update": {"t": 3}, "ftrl_update": {"lamda1": 0.2}}


def _inputs(name: str, rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> list[np.ndarray]:
    n = len(operators.get(name).arguments)
    states = [
        np.abs(array(rng, shape, dtype)) + np.ones((), array(rng, (), dtype).dtype) for _ in range(n - 2)
    ]
    return [array(rng, shape, dtype), array(rng, shape, dtype), *states]


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("shape", [(7, 3), (1,), (5000,)])
def test_step(name: str, dtype: str, shape: tuple[int, ...], rng: np.random.Generator) -> None:
    inputs = _inputs(name, rng, shape, dtype)
    if name == "rmspropalex_update":
        inputs[3] = (inputs[3] * 0.1).astype(inputs[3].dtype)
        inputs[2] = inputs[2] + np.ones((), inputs[2].dtype)
    clip = "clip_grad" if name == "ftml_update" else "clip_gradient"
    for limit in (-1.0, 0.4):
        attrs = {"lr": 0.1, "wd": 0.01, "rescale_grad": 0.5, clip: limit, **MORE.get(name, {})}
        verify(name, attrs, inputs, rtol=4e-3 if dtype == "float16" else 5e-6)


def test_in_place(rng: np.random.Generator) -> None:
    op = operators.get("adam_update")
    inputs = _inputs("adam_update", rng, (9000,), "float32")
    p = op.Param.parse({"lr": 0.1, "wd": 0.01}, op="adam_update")
    want = op.reference(p, [x.copy() for x in inputs], ReferenceContext(scalars=p.scalars))
    plan = plan_of(call_of(op, p, inputs))
    run(plan, inputs, [inputs[0]], [INPLACE], scalars=p.scalars, threads=2)
    for got, expected in zip([inputs[0], *inputs[2:]], want, strict=True):
        close(got, expected)


def test_scalars_are_read_at_run_time(rng: np.random.Generator) -> None:
    op = operators.get("sgd_update")
    inputs = _inputs("sgd_update", rng, (4,), "float32")
    plan = plan_of(call_of(op, op.Param.parse({"lr": 0.1}, op="sgd_update"), inputs))
    for lr in (0.5, 2.0):
        out = np.zeros(4, np.float32)
        run(plan, inputs, [out], [1], scalars=(lr, 0.0, 1.0, -1.0))
        close(out, inputs[0] - np.float32(lr) * inputs[1])
