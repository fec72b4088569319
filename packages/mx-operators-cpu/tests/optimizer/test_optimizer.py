# SPDX-License-Identifier: Apache-2.0
"""Optimizer steps equal their references, states included, and accept `out=weight`."""

from __future__ import annotations

import numpy as np
import pytest
from plans import INPLACE, array, call_of, close, plan_of, run, verify

from mx_core import operators
from mx_core.operator import ReferenceContext
from mx_operators_cpu.optimizer.optimizer import STEPS

MORE = {"_sparse_adagrad_update": {"wd": 0}, "ftml_update": {"t": 3}, "ftrl_update": {"lamda1": 0.2}}


def _inputs(name: str, rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> list[np.ndarray]:
    n = len(operators.get(name).arguments)
    states = [
        np.abs(array(rng, shape, dtype)) + np.ones((), array(rng, (), dtype).dtype) for _ in range(n - 2)
    ]
    return [array(rng, shape, dtype), array(rng, shape, dtype), *states]


ONE_TYPE = [name for name in STEPS if "adamw" not in name and "lamb" not in name and "mp_" not in name]
OTHERS = [name for name in STEPS if name not in ONE_TYPE]


@pytest.mark.parametrize("name", ONE_TYPE)
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


#: inputs that have one element
NORMS = ("r1", "r2", "rescale_grad")


def _mixed_inputs(name: str, rng: np.random.Generator, dtype: str) -> list[np.ndarray]:
    """Weight and gradient of a type; with a master copy the states are float32."""
    arguments = operators.get(name).arguments
    state = "float32" if "weight32" in arguments else dtype
    made = []
    for argument in arguments:
        shape = (1,) if argument in NORMS else (40, 3)
        kind = "float32" if argument in NORMS and state == "float32" else dtype
        x = array(rng, shape, kind if argument in ("weight", "grad", *NORMS) else state)
        made.append(np.abs(x) if argument in ("var", *NORMS) else x)
    return made


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("limit", [-1.0, 0.4])
def test_mixed_precision_adamw_and_lamb(
    name: str, dtype: str, limit: float, rng: np.random.Generator
) -> None:
    if "phase2" in name and dtype != "float32" and not name.startswith("mp_"):
        pytest.skip("norms have the weight's type there")
    attrs: dict[str, float] = {"lr": 0.1, "wd": 0.01}
    if "adamw" in name:
        attrs |= {"eta": 0.9, "clip_gradient": limit}
    elif "phase1" in name:
        attrs = {"wd": 0.01, "t": 3, "clip_gradient": limit}
    elif "phase2" in name:
        attrs = {"lr": 0.1, "lower_bound": limit, "upper_bound": 0.5 if limit > 0 else -1}
    else:
        attrs |= {"rescale_grad": 0.5, "clip_gradient": limit}
    rtol = {"float32": 5e-6, "float16": 4e-3, "bfloat16": 4e-2}[dtype]
    verify(name, attrs, _mixed_inputs(name, rng, dtype), rtol=rtol)


@pytest.mark.parametrize("name", ["_adamw_update", "_mp_adamw_update"])
@pytest.mark.parametrize("scale", [0.0, np.inf, np.nan])
def test_adamw_leaves_out_a_step_whose_scale_overflowed(
    name: str, scale: float, rng: np.random.Generator
) -> None:
    inputs = _mixed_inputs(name, rng, "float32")
    inputs[-1][:] = scale
    verify(name, {"lr": 0.1, "eta": 1.0}, inputs)


@pytest.mark.parametrize("name", ["sgd_update", "sgd_mom_update", "mp_sgd_update", "mp_sgd_mom_update"])
def test_several_weights_at_once(name: str, rng: np.random.Generator) -> None:
    dtype = "float16" if name.startswith("mp_") else "float32"
    arguments = operators.get(name).arguments
    inputs = [
        array(
            rng,
            shape,
            "float32" if argument == "weight32" or (dtype == "float16" and argument == "mom") else dtype,
        )
        for shape in ((3, 4), (50,), (1,))
        for argument in arguments
    ]
    attrs: dict[str, object] = {
        "lrs": (0.1, 0.2, 0.3),
        "wds": (0.0, 0.01, 0.1),
        "num_weights": 3,
        "rescale_grad": 0.5,
    }
    if "mom" in name:
        attrs["momentum"] = 0.9
    verify(f"multi_{name}", attrs, inputs, rtol=4e-3 if dtype == "float16" else 5e-6)


@pytest.mark.parametrize("place", range(4))
def test_ftrl_hides_no_divergence(place: int, rng: np.random.Generator) -> None:
    inputs = [np.abs(array(rng, (37,), "float32")) for _ in range(4)]
    inputs[place][::3] = np.nan
    verify("ftrl_update", {"lr": 0.1, "lamda1": 0.2}, inputs, rtol=5e-6)
