# SPDX-License-Identifier: Apache-2.0
"""The command that confirms kernels on a GPU: its order, its time, and what it keeps."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from mx_operators_cuda import confirm, device, ledger
from mx_operators_cuda.confirm import Step
from testkit.fake_machine import Machine

ON_GPU = Path(__file__).parent / "on_gpu"


def entry(name: str, source: str) -> ledger.Entry:
    return ledger.Entry(name, source, "NVIDIA H200", "580.65", "13.0", "2026-01-31", 1e-7, 4000.0)


def test_every_file_of_tests_is_run_or_needs_what_is_no_kernel() -> None:
    others = {"blocks", "failures"}  # of other packages, or of the fake driver's failures
    assert {file.stem for file in ON_GPU.glob("*.py")} == {*confirm.RUN_ON_GPU} | others


def test_stale_samples_come_first_and_confirmed_ones_last() -> None:
    first, second, *rest = ledger.samples()
    known = [entry(first, ledger.fingerprint(ledger.samples()[first])), entry(second, "0" * 64)]
    names = [step.name for step in confirm.steps(known, ["layers"])]
    assert names == [
        f"stale: {second}",
        *(f"never: {n}" for n in rest),
        "tests: layers",
        f"verified: {first}",
    ]


def test_results_are_kept_at_once_and_time_is_kept(tmp_path: Path) -> None:
    path, now = tmp_path / "ledger.json", [0.0]
    path.write_text("[]")
    first, second = list(ledger.samples())[:2]
    given = {"a": (True, f".{json.dumps(asdict(entry(first, 'a' * 64)))}\n1 passed"),
             "b": (False, f"{json.dumps(asdict(entry(second, 'b' * 64)))}\nfailed"), "c": (True, "1 passed")}  # fmt: skip
    told: list[int] = []

    def execute(step: Step, left: float) -> tuple[bool, str]:
        assert left == 50 - now[0]
        now[0] += 30
        return given[step.name]

    def tell(outcomes: object) -> None:
        told.append(len(ledger.load(path)))

    todo = [Step(name, name) for name in "abc"]
    outcomes = confirm.run(todo, path, execute, seconds=50, tell=tell, clock=lambda: now[0])
    assert [o.state for o in outcomes] == ["passed", "failed", "not reached"]
    assert [row.kernel for row in ledger.load(path)] == [first] and told[0] == 1
    text = confirm.report(outcomes)
    assert "passed         30.0 s  a" in text and "==== b" in text and "not reached" in text


def test_a_machine_without_a_gpu_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "missing", lambda: "there is no driver")
    with pytest.raises(SystemExit, match="no GPU to confirm anything on: there is no driver"):
        confirm.main([])


@pytest.mark.long
@pytest.mark.parametrize(
    "wanted",
    [["tests: plans"], pytest.param(["tests: plans", "bias float16"], marks=pytest.mark.slow)],
    ids=["tests", "samples"],
)
@pytest.mark.timeout(1200)
def test_all_of_it_runs_on_the_stand_in(wanted: list[str], machine: Machine, tmp_path: Path) -> None:
    """The command as on a GPU: steps in their order, a report, and entries of the ledger."""
    path, report = tmp_path / "ledger.json", tmp_path / "report.txt"
    path.write_text("[]")
    words = ["--ledger", str(path), "--report", str(report), "--tests", str(ON_GPU.parent), "--only", *wanted]
    program = f"import sys; from mx_operators_cuda import confirm; sys.exit(confirm.main({words!r}))"
    machine.run(program, timeout=1100, FAKE_CUDA_MEMORY=str(2 << 30))
    lines = report.read_text().splitlines()
    assert len(lines) == len(wanted) and all(line.startswith("passed") for line in lines), lines
    entries = ledger.load(path)
    assert [row.kernel for row in entries] == [name for name in wanted if not name.startswith("tests")]
    assert all(row.gpu == "Fake GPU" and row.max_relative_error < 2e-3 for row in entries)
