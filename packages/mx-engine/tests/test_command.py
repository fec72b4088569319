# SPDX-License-Identifier: Apache-2.0
"""`mx engine bench` and what it measures with."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

import mx_engine
from mx_core.errors import ArgumentError
from mx_engine import _core
from mx_engine.command import engine as command
from mx_engine.measure import NATIVE, figures

pytestmark = pytest.mark.timeout(60)


@pytest.mark.parametrize("name", ["ThreadedEngine", "NaiveEngine"])
def test_bench_prints_a_figure_per_line(name: str) -> None:
    result = CliRunner().invoke(command, ["bench", "--type", name, "--operations", "100"])
    assert result.exit_code == 0, result.output
    head, *lines = result.output.splitlines()
    assert head == f"{name}, 2 workers, 100 empty operations, medians of 5"
    assert len(lines) == 8 and all(line.split()[-1] in ("M/s", "us") for line in lines)


def test_figures_are_positive_and_leave_nothing_behind() -> None:
    engine = mx_engine.create(workers=2)
    assert all(value > 0 for _, value, _ in figures(engine, 100, 1))
    assert engine.pending == 0


def test_the_graphs_are_what_they_are_called(engine: mx_engine.Engine) -> None:
    for graph in NATIVE:
        assert 0 < _core.run_empty(engine.capsule, graph, 50, inline=True) < 10
    with pytest.raises(ArgumentError, match=r"graph: .* got 'star'"):
        _core.run_empty(engine.capsule, "star", 50)
    with pytest.raises(ArgumentError, match="at least 1"):
        _core.run_empty(engine.capsule, NATIVE[0], 0)
