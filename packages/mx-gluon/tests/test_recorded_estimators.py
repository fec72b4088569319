# SPDX-License-Identifier: Apache-2.0
"""Trainings with an Estimator: logs, events, files and weights are those of MXNet 1.9.1."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mx_gluon
from mx_core import cpu
from mx_ndarray import nd
from mx_train import metric
from testkit import estimator_programs
from testkit.oracle import ORACLE

pytestmark = pytest.mark.timeout(60)
RECORDED = json.loads((ORACLE / "gluon" / "estimator.json").read_text())
MX = SimpleNamespace(gluon=mx_gluon, nd=nd, metric=metric, cpu=cpu)
NUMBER = re.compile(r"\d+\.\d+")


#: absolute differences from the record where MXNet's own rounding is larger than 1e-5: the weights recorded in
#: `best` are up to 8e-5 from those of a training in float64, ours 4e-6
ROUNDED = {"best": 2e-5}


def near(expected: Any, name: str) -> Any:
    """What is equal to a recorded value of a program but for the last digits."""
    if isinstance(expected, list):
        return [near(each, name) for each in expected]
    if not isinstance(expected, float):
        return expected
    return pytest.approx(expected, rel=1e-4, abs=ROUNDED.get(name, 1e-5))


def numbers(event: list[Any]) -> list[Any]:
    """A line of a log as text and numbers, of which the last digits may differ."""
    if event[0] != "log":
        return event
    return [*event[:2], NUMBER.sub("#", event[2]), [float(each) for each in NUMBER.findall(event[2])]]


@pytest.mark.parametrize("name", RECORDED)
def test_a_training_is_seen_as_mxnet_recorded_it(name: str, tmp_path: Path) -> None:
    found = json.loads(json.dumps(estimator_programs.run(MX, name, str(tmp_path))))
    expected = RECORDED[name]
    for here, there in zip(found, expected, strict=False):
        here, there = numbers(here), numbers(there)
        if here[0] == "log":
            assert here[:3] == there[:3]
            assert here[3] == pytest.approx(there[3], rel=1e-3, abs=2e-4)
        else:
            assert here == near(there, name)
    assert len(found) == len(expected)


def test_weights_of_a_steep_training_are_those_of_float64(tmp_path: Path) -> None:
    steps, rate, batch = 6, 4.0, 4  # `best` keeps its second epoch of three batches
    rng = np.random.RandomState(1)
    data = rng.uniform(-1, 1, (3 * batch, 3)).astype(np.float32).astype(np.float64)
    labels = np.eye(2)[rng.randint(0, 2, 3 * batch)]
    rng = np.random.RandomState(5)
    shapes = [(4,), (4, 3), (2,), (2, 4)]
    first = [rng.uniform(-1, 1, shape).astype(np.float32).astype(np.float64) for shape in shapes]
    inner_bias, inner, bias, weight = first
    for step in range(steps):
        part = slice(step % 3 * batch, (step % 3 + 1) * batch)
        hidden = np.tanh(data[part] @ inner.T + inner_bias)
        scores = np.exp(hidden @ weight.T + bias)
        output = scores / scores.sum(axis=1, keepdims=True) - labels[part]
        below = output @ weight * (1 - hidden * hidden)
        gradients = (below.sum(axis=0), below.T @ data[part], output.sum(axis=0), output.T @ hidden)
        for values, gradient in zip(first, gradients, strict=True):
            values -= rate / batch * gradient
    found = [event[1] for event in estimator_programs.run(MX, "best", str(tmp_path)) if event[0] == "weights"]
    for values, expected in zip(found[-1], first, strict=True):
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-5)


def test_every_program_is_recorded() -> None:
    assert list(RECORDED) == list(estimator_programs.PROGRAMS)
