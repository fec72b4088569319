# SPDX-License-Identifier: Apache-2.0
"""What benchmarks of distributed stores have in common."""

from __future__ import annotations

import json
import math
import subprocess
from typing import Any

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
