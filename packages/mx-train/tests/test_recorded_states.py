# SPDX-License-Identifier: Apache-2.0
"""Steps of optimizers on one and two devices, and their states in files, are those recorded from MXNet 1.9.1."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mx_kvstore
from mx_ndarray import NDArray, nd
from mx_train import lr_scheduler, optimizer
from mx_train.optimizer.states import dump_states, read_states
from testkit.oracle import ORACLE

DATA = ORACLE / "training"
CASES = json.loads((DATA / "states.json").read_text())
SHAPES = {"fc_weight": (2, 3), "fc_bias": (3,), "bn_gamma": (2,)}
BEFORE, AFTER = 3, 2
EVERY_CASE = pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])


@pytest.fixture(scope="module")
def recorded() -> Mapping[str, Any]:
    with np.load(DATA / "states.npz") as file:
        return dict(file)


def first_weights(case: dict[str, Any]) -> dict[str, NDArray]:
    rng = np.random.RandomState(7)
    drawn = {name: rng.uniform(-2, 2, shape) for name, shape in SHAPES.items()}
    return {name: nd.array(drawn[name], dtype=case["dtype"]) for name in case["parameters"]}


def gradients(case: dict[str, Any], step: int) -> dict[str, list[NDArray]]:
    rng = np.random.RandomState(100 + step)
    drawn = {name: rng.uniform(-3, 3, (2, *shape)) for name, shape in SHAPES.items()}
    kept = slice(case["devices"])
    return {
        name: [nd.array(g, dtype=case["dtype"]) for g in drawn[name][kept]] for name in case["parameters"]
    }


class Training:
    """Weights with the updater or store of a case."""

    def __init__(self, case: dict[str, Any], weights: dict[str, NDArray]) -> None:
        settings = dict(case["settings"])
        if "lr_scheduler" in settings:
            name, arguments = settings["lr_scheduler"]
            settings["lr_scheduler"] = getattr(lr_scheduler, name)(**arguments)
        mults = settings.pop("mults", {})
        made = optimizer.create(
            case["optimizer"], param_idx2name=dict(enumerate(case["parameters"])),
            multi_precision=case.get("mixed", case["dtype"] == "float16"), **settings,
        )  # fmt: skip
        if mults:
            made.set_lr_mult(mults)
            made.set_wd_mult(mults)
        self.case, self.weights, self.store = case, weights, None
        self.updater = optimizer.get_updater(made)
        if case["devices"] == 2:
            self.store = mx_kvstore.create("local")
            for key, weight in weights.items():
                self.store.init(key, weight)
            self.store.set_optimizer(made)

    def step(self, number: int) -> Any:
        for i, (name, grads) in enumerate(gradients(self.case, number).items()):
            if self.store is None:
                self.updater(i, grads[0], self.weights[name])
            else:
                self.store.push(name, grads)
                self.store.pull(name, out=self.weights[name])
        return np.concatenate([w.asnumpy().astype(np.float32).ravel() for w in self.weights.values()])

    def save(self, folder: Path, dump_optimizer: bool = False) -> bytes:
        if self.store is None:
            return self.updater.get_states(dump_optimizer)
        self.store.save_optimizer_states(str(folder / "saved"), dump_optimizer)
        return (folder / "saved").read_bytes()

    def load(self, states: bytes, folder: Path) -> None:
        if self.store is None:
            self.updater.set_states(states)
            return
        (folder / "saved").write_bytes(states)
        self.store.load_optimizer_states(str(folder / "saved"))


def assert_near(found: Any, expected: Any, case: dict[str, Any]) -> None:
    """float32 steps agree to rounding; float16 ones to the last place of a weight."""
    limits = (2e-3, 2e-3) if case["dtype"] == "float16" else (2e-5, 2e-6)
    np.testing.assert_allclose(found, expected, *limits)


def assert_same_state(found: Any, expected: Any, case: dict[str, Any]) -> None:
    """Arrays of the same type and numbers, in the same places."""
    if isinstance(expected, NDArray):
        assert isinstance(found, NDArray) and found.dtype == expected.dtype
        assert_near(found.asnumpy(), expected.asnumpy(), case)
    elif isinstance(expected, (list, tuple)):
        assert type(found) is type(expected) and len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            assert_same_state(a, b, case)
    else:
        assert found == expected


@EVERY_CASE
def test_steps_and_states_are_mxnets(
    case: dict[str, Any], recorded: Mapping[str, Any], tmp_path: Path
) -> None:
    training = Training(case, first_weights(case))
    steps = [training.step(number) for number in range(BEFORE)]
    found, expected = (
        read_states(s) for s in (training.save(tmp_path), bytes(recorded[case["id"] + "/states"]))
    )
    steps += [training.step(number) for number in range(BEFORE, BEFORE + AFTER)]
    assert_near(np.array(steps), recorded[case["id"] + "/steps"], case)
    states = {key: value for key, value in found.items() if not str(key).startswith("__")}
    assert states.keys() == expected.keys()
    for key, state in states.items():
        assert_same_state(state, expected[key], case)


@pytest.mark.parametrize("saved", ["states", "dumped"])
@EVERY_CASE
def test_training_goes_on_from_a_file_of_mxnet_as_there(
    case: dict[str, Any], recorded: Mapping[str, Any], saved: str, tmp_path: Path
) -> None:
    training = Training(case, first_weights(case))
    for number in range(BEFORE):
        training.step(number)
    resumed = Training(case, {name: weight.copy() for name, weight in training.weights.items()})
    resumed.load(bytes(recorded[f"{case['id']}/{saved}"]), tmp_path)
    steps = [resumed.step(number) for number in range(BEFORE, BEFORE + AFTER)]
    assert_near(np.array(steps), recorded[f"{case['id']}/after_{saved}"], case)


STATES = {  # every form of a state, in numbers that every type holds
    0: None,
    1: nd.array([[1.0, -0.5], [0.0, 65504.0]], dtype="float16"),
    "fc_weight": (nd.array([0.25, 2.0]), nd.array([1.0, 3.0])),
    "fc_bias": ((nd.ones((1, 3)), None), nd.full((1, 3), -2.0)),
}
#: what `dump_states` gave of them when the recorder of MXNet read it
WRITTEN = DATA / "written_by_mx.states"


def test_the_bytes_are_those_that_mxnet_was_seen_to_read() -> None:
    assert dump_states(STATES) == WRITTEN.read_bytes()


@pytest.mark.skipif("MX_BENCH_MXNET_PYTHON" not in os.environ, reason="MX_BENCH_MXNET_PYTHON names no Python")
def test_mxnet_goes_on_from_files_written_here(tmp_path: Path) -> None:
    for case in CASES:
        training = Training(case, first_weights(case))
        for number in range(BEFORE):
            training.step(number)
        (tmp_path / f"{case['id']}.states").write_bytes(training.save(tmp_path))
    command = [
        os.environ["MX_BENCH_MXNET_PYTHON"],
        str(ORACLE / "recorders" / "states.py"),
        "--resume",
        tmp_path,
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ORACLE / "recorders", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
