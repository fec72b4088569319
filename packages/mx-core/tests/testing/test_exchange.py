# SPDX-License-Identifier: Apache-2.0
"""What benchmarks of distributed stores have in common."""

from __future__ import annotations

import json
import math
import subprocess
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mx_core.testing import exchange


def test_resnet_50_has_161_parameters() -> None:
    shapes = exchange.resnet50_shapes()
    assert len(shapes) == 161 and sum(map(math.prod, shapes)) == 25_557_032  # as torchvision counts them
    assert shapes[-2:] == [(1000, 2048), (1000,)]


def test_steps_take_turns_behind_barriers() -> None:
    told: list[str] = []

    class Store:
        def barrier(self) -> None:
            told.append("barrier")

    taken: dict[str, list[float]] = {}
    steps = {
        "first": lambda: told.append("first"),
        "second": lambda: told.append(f"after {len(taken['first'])}"),
    }
    found = exchange.timed(Store(), steps, taken)
    rounds = exchange.WARM + exchange.ROUNDS
    assert told == [
        each for turn in range(1, rounds + 1) for each in ("barrier", "first", "barrier", f"after {turn}")
    ]
    assert {name: len(times) for name, times in found.items()} == dict.fromkeys(steps, exchange.ROUNDS)
    assert found["first"] == taken["first"][exchange.WARM :]


def test_what_workers_print_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ['[worker 1] {"a": [1, 5]}', "[worker 0] a warning", '[worker 0] {"a": [3, 2]}']

    def run(command: list[str], env: dict[str, str], **how: Any) -> Any:
        assert (
            command[3:] == ["launch", "-n", "2", "-s", "1", command[0], "program.py"] and env["MORE"] == "x"
        )
        return subprocess.CompletedProcess(command, 0, "\n".join(lines), "told")

    monkeypatch.setattr(subprocess, "run", run)
    found = exchange.launched(2, ["-s", "1"], ["program.py"], MORE="x")
    assert exchange.slowest(found) == {"a": [3, 5]}
    del lines[0]
    with pytest.raises(SystemExit, match="the job failed:\n.*a warning"):
        exchange.launched(2, ["-s", "1"], ["program.py"], MORE="x")


def test_a_limit_is_a_ratio(capsys: pytest.CaptureFixture[str]) -> None:
    exchange.compare("sums", [4.0, 4.0, 4.0], "copies", [1.0, 2.0, 3.0])
    found = json.loads(capsys.readouterr().out)
    assert found == {
        "name": "sums", "value": 4.0, "unit": "ms", "baseline": "copies", "ratio": 0.5, "spread": 0.125,
    }  # fmt: skip


def test_a_step_pushes_all_gradients_and_checks_the_sums(capsys: pytest.CaptureFixture[str]) -> None:
    class Array:
        def __init__(self, shape: tuple[int, ...], value: float) -> None:
            self.size, self.values = math.prod(shape), np.array([value])

        def __mul__(self, factor: float) -> Array:
            return Array((self.size,), self.values[0] * factor)

        def asnumpy(self) -> Any:
            return self.values

    class Store:
        """That of worker 0 of two."""

        rank = 0
        told: list[Any]

        def __init__(self) -> None:
            self.told, self.more = [], 2

        def init(self, key: int, value: Array) -> None:
            self.told.append(("init", key, value.size))

        def pushpull(self, key: int, value: Array, out: Array, priority: int) -> None:
            self.told.append(("pushpull", key, priority))
            out.values = value.values + self.more

        def sum(self, key: int, value: Array, out: Array, priority: int) -> None:
            self.told.append(("sum", key, priority))
            out.values = value.values + self.more

        def barrier(self) -> None:
            self.told.append("barrier")

    store: Any = Store()
    nd = SimpleNamespace(
        zeros=lambda shape: Array(shape, 0),
        ones=lambda shape: Array(shape, 1),
        waitall=lambda: store.told.append("all"),
    )
    step = exchange.Step(SimpleNamespace(nd=nd), store)
    assert step.size == 25_557_032 and store.told[160] == ("init", 160, 1000)
    store.told.clear()
    step.pushpull()
    step.sum()
    assert store.told[:2] == [("pushpull", 0, 0), ("pushpull", 1, -1)]
    assert store.told[161:163] == ["all", ("sum", 0, 0)] and len(store.told) == 2 * 162
    step.tell({"store": [1.0]})
    assert json.loads(capsys.readouterr().out) == {"store": [1.0]} and store.told[-1] == "barrier"
    store.more = 1
    step.pushpull()
    with pytest.raises(AssertionError):
        step.tell({})
