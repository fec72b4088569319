# SPDX-License-Identifier: Apache-2.0
"""What tests of single operators share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mx_core import operators
from mx_core.operator import ReferenceContext
from testkit import replay


@pytest.fixture
def run() -> Callable[..., tuple[Any, ...]]:
    """`run(name, inputs, **attrs)`: what the reference returns."""

    def call(
        name: str, inputs: list[Any], key: int = 7, train: bool = False, **attrs: Any
    ) -> tuple[Any, ...]:
        op = operators.get(name)
        p = op.Param.parse(attrs, op=name)
        ctx = ReferenceContext(is_train=train, scalars=p.scalars, random_key=key)
        return tuple(op.reference(p, inputs, ctx))

    return call


@pytest.fixture
def check_gradient() -> Callable[..., None]:
    """`check_gradient(name, inputs, project=…, **attrs)`: gradient against directional differences.

    `project` maps a random direction of an input to one in which the input may move.
    """

    def check(name: str, inputs: list[Any], project: Any = None, tol: float = 1e-5, **attrs: Any) -> None:
        op = operators.get(name)
        p = op.Param.parse(attrs, op=name)
        rng = np.random.default_rng(5)
        outputs = replay.forward(name, attrs, inputs, True)[: len(op.outputs(p))]
        visible = op.num_visible_outputs(p)
        heads = [rng.normal(size=o.shape) if i < visible else np.zeros_like(o) for i, o in enumerate(outputs)]
        checked = 0
        for i, grad in enumerate(replay.backward(name, attrs, inputs, outputs, heads)):
            if grad is None:
                continue
            assert grad.shape == inputs[i].shape
            direction = rng.normal(size=inputs[i].shape)
            direction = project(direction) if project else direction
            ends = []
            for h in (1e-6, -1e-6):
                moved = [x + h * direction if j == i else x for j, x in enumerate(inputs)]
                results = replay.forward(name, attrs, moved, True)[:visible]
                ends.append(sum((head * y).sum() for head, y in zip(heads, results, strict=False)))
            np.testing.assert_allclose(
                (grad * direction).sum(), (ends[0] - ends[1]) / 2e-6, rtol=tol, atol=tol
            )
            checked += 1
        assert checked

    return check
