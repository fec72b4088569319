# SPDX-License-Identifier: Apache-2.0
"""Gradients as data against directional differences in float64, on the recorded cases' inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import operators
from mx_core.operator import gradient_of
from testkit import oracle, replay
from testkit.oracle import REPLACED, STOPPED, SYMMETRIC


def cases() -> list[Any]:
    found = []
    for case in oracle.cases():
        if not case["smooth"]:  # kinks, ties, NaN, rounding to other types
            continue
        op = operators.find(case["op"])
        if op is None or op.is_loss or case["op"] in STOPPED | REPLACED or case.get("imperative_only"):
            continue
        attrs = dict(case["attrs"])
        if op.variadic:
            attrs.setdefault(op.variadic, len(case["arguments"]))
        if not gradient_of(op, op.Param.parse(attrs, op=op.name)).is_zero:
            found.append(pytest.param(case, attrs, id=case["id"]))
    return found


@pytest.mark.parametrize(("case", "attrs"), cases())
def test_gradient_equals_directional_difference(case: dict[str, Any], attrs: dict[str, Any]) -> None:
    data, key, op = oracle.arrays(case["family"]), case["id"], operators.get(case["op"])
    inputs = [data[f"{key}/arg/{n}"].astype(np.float64) for n in case["arguments"]]
    inputs += [data[f"{key}/aux/{n}"].astype(np.float64) for n in case["aux"]]
    train = case["is_train"]
    p = op.Param.parse(attrs, op=op.name)
    if getattr(p, "fix_gamma", False):
        inputs[1] = np.ones_like(inputs[1])
    rng = np.random.default_rng(5)
    with np.errstate(all="ignore"):
        outputs = replay.forward(op.name, attrs, inputs, train)[: len(op.outputs(p))]
        visible = op.num_visible_outputs(p)
        heads = [rng.normal(size=o.shape) if i < visible else np.zeros_like(o) for i, o in enumerate(outputs)]
        grads = replay.backward(op.name, attrs, inputs, outputs, heads, train)
    h = 1e-6
    for i, grad in enumerate(grads):
        if grad is None or (i == 1 and getattr(p, "fix_gamma", False)):
            continue
        assert grad.shape == inputs[i].shape
        direction = rng.normal(size=inputs[i].shape)
        if op.name in SYMMETRIC:
            direction = direction + direction.swapaxes(-1, -2)
        ends = []
        for sign in (1, -1):
            moved = [x + sign * h * direction if j == i else x for j, x in enumerate(inputs)]
            with np.errstate(all="ignore"):
                result = replay.forward(op.name, attrs, moved, train)
            ends.append(sum((head * y).sum() for head, y in zip(heads, result[:visible], strict=False)))
        numeric = (ends[0] - ends[1]) / (2 * h)
        np.testing.assert_allclose((grad * direction).sum(), numeric, rtol=2e-4, atol=2e-5)
