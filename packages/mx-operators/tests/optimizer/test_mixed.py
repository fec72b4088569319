# SPDX-License-Identifier: Apache-2.0
"""Updates with master copies, of several weights, LAMB and AdamW."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import operators
from mx_core.errors import DTypeError, ShapeError
from mx_core.operator import infer_shapes, infer_types

RNG = np.random.default_rng(4)
W, G, M = (RNG.normal(size=(3, 2)).astype(np.float32) for _ in range(3))


@pytest.mark.parametrize(
    ("name", "states"), [("sgd_update", []), ("sgd_mom_update", [M]), ("nag_mom_update", [M])]
)
def test_the_master_copy_moves_like_a_float32_weight(run: Any, name: str, states: list[Any]) -> None:
    attrs = {"lr": 0.1, "wd": 0.01, "rescale_grad": 0.5, "clip_gradient": 0.3}
    attrs |= {"momentum": 0.9} if states else {}
    g16 = G.astype(np.float16)
    plain = run(name, [W, g16.astype(np.float32), *states], **attrs)
    mixed = run(f"mp_{name}", [W.astype(np.float16), g16, *states, W], **attrs)
    assert mixed[0].dtype == np.float16
    np.testing.assert_array_equal(mixed[0], plain[0].astype(np.float16))
    np.testing.assert_array_equal(mixed[-1], plain[0])
    if name == "sgd_mom_update":
        np.testing.assert_array_equal(mixed[1], plain[1])


def test_the_momentum_of_mixed_nag_decays_with_the_new_weight(run: Any) -> None:
    half = [np.array(x, np.float16) for x in ([0.5, -2], [1, 0.25])]
    single = [np.array(x, np.float32) for x in ([0.5, -0.25], [1, -3])]
    weight, mom, master = run("mp_nag_mom_update", half + single, lr=0.5, momentum=0.5, wd=0.25)
    # recorded from MXNet 1.9.1
    np.testing.assert_array_equal(mom, np.float32([-0.2734375, 0.0859375]))
    np.testing.assert_array_equal(master, np.float32([0.1875, -2.6875]))
    np.testing.assert_array_equal(weight, master.astype(np.float16))


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("momentum", [False, True])
def test_several_weights_at_once(run: Any, mixed: bool, momentum: bool) -> None:
    kind = ("mp_" if mixed else "") + ("sgd_mom_update" if momentum else "sgd_update")
    one = [W.astype(np.float16), G.astype(np.float16)] if mixed else [W, G]
    one += ([M] if momentum else []) + ([W] if mixed else [])
    more = {"momentum": 0.9} if momentum else {}
    attrs = {"lrs": (0.1, 0.2), "wds": (0.0, 0.01), "num_weights": 2, **more}
    made = run(f"multi_{kind}", [*one, *one], **attrs)
    first = run(kind, one, lr=0.1, wd=0.0, **more)
    second = run(kind, one, lr=0.2, wd=0.01, **more)
    for got, expected in zip(made, (first[0], second[0], *first[1:], *second[1:]), strict=True):
        np.testing.assert_array_equal(got, expected)
    op = operators.get(f"multi_{kind}")
    assert len(op.mutated_inputs(op.Param(**attrs))) == len(made) - 2


def test_several_weights_need_as_many_arrays_and_rates() -> None:
    op = operators.get("multi_sgd_update")
    shapes = [(2,)] * 4
    with pytest.raises(ShapeError, match="expected 4 arrays, 2 for each of 2 weights, got 3"):
        infer_shapes(op, op.Param(lrs=(1, 1), wds=(0, 0), num_weights=2, num_args=3), shapes)
    with pytest.raises(ShapeError, match="lrs: expected 2 values, got"):
        infer_shapes(op, op.Param(lrs=(1,), wds=(0, 0), num_weights=2), shapes)
    for given in (0, 4):  # 0: not given
        assert infer_shapes(op, op.Param(lrs=(1, 1), wds=(0, 0), num_weights=2, num_args=given), shapes)
    with pytest.raises(ShapeError, match="got 1"):
        infer_shapes(op, op.Param(lrs=(1, 1), wds=(0, 0), num_weights=2, num_args=1), shapes)
    op = operators.get("mp_sgd_update")
    with pytest.raises(DTypeError, match="weight32"):
        infer_types(op, op.Param(lr=1), [2, 2, 2])


@pytest.mark.parametrize("correct", [False, True])
def test_lamb(run: Any, correct: bool) -> None:
    v, attrs = M * M, {"t": 3, "wd": 0.1, "beta1": 0.8, "beta2": 0.9, "bias_correction": correct}
    direction, mean, var = run("lamb_update_phase1", [W, G, M, v], **attrs)
    m1, v1 = 0.8 * M + 0.2 * G, 0.9 * v + 0.1 * G * G
    np.testing.assert_allclose(mean, m1, rtol=1e-5)
    np.testing.assert_allclose(var, v1, rtol=1e-5)
    c1, c2 = (1 - 0.8**3, 1 - 0.9**3) if correct else (1, 1)
    np.testing.assert_allclose(direction, m1 / c1 / (np.sqrt(v1 / c2) + 1e-6) + 0.1 * W, rtol=1e-4)
    mixed = run("mp_lamb_update_phase1", [W.astype(np.float16), G, M, v, W], **attrs)
    np.testing.assert_array_equal(mixed[0], direction)
    r1, r2 = np.array([4.0], np.float32), np.array([2.0], np.float32)
    new = run("lamb_update_phase2", [W, direction, r1, r2], lr=0.1)[0]
    np.testing.assert_allclose(new, W - 0.2 * direction, rtol=1e-5)
    bounded = run("lamb_update_phase2", [W, direction, r1, r2], lr=0.1, upper_bound=2.0)[0]
    np.testing.assert_allclose(bounded, W - 0.1 * direction, rtol=1e-5)
    zero = run("lamb_update_phase2", [W, direction, r1 * 0, r2], lr=0.1)[0]
    np.testing.assert_allclose(zero, W - 0.1 * direction, rtol=1e-5)
    rounded, master = run("mp_lamb_update_phase2", [W.astype(np.float16), direction, r1, r2, W], lr=0.1)
    np.testing.assert_array_equal(master, new)
    np.testing.assert_array_equal(rounded, new.astype(np.float16))


def test_adamw(run: Any) -> None:
    v, attrs = M * M, {"lr": 0.1, "eta": 0.5, "wd": 0.02}
    new, mean, var = run("_adamw_update", [W, G, M, v, np.array([0.5], np.float32)], **attrs)
    m1, v1 = 0.9 * M + 0.05 * G, 0.999 * v + 0.001 * G * G / 4
    np.testing.assert_allclose(mean, m1, rtol=1e-4)
    np.testing.assert_allclose(var, v1, rtol=1e-4)
    np.testing.assert_allclose(new, W - 0.5 * (0.1 * m1 / (np.sqrt(v1) + 1e-8) + 0.02 * W), rtol=1e-4)
    half = W.astype(np.float16)
    mixed = run("_mp_adamw_update", [half, G, M, v, W, np.array([0.5], np.float32)], **attrs)
    np.testing.assert_array_equal(mixed[3], new)
    np.testing.assert_array_equal(mixed[0], new.astype(np.float16))
    for scale in (0.0, np.inf, np.nan):
        left = run("_mp_adamw_update", [half, G, M, v, W, np.array([scale], np.float32)], **attrs)
        for got, old in zip(left, (half, M, v, W), strict=True):
            np.testing.assert_array_equal(got, old)
