# SPDX-License-Identifier: Apache-2.0
"""Random calls and damaged files in guarded processes; `nox -s fuzz` tries as many as it is told."""

from __future__ import annotations

import os
from pathlib import Path

import damaged_files
import fuzz_files
import fuzz_operators
import pytest
import random_calls
import workers

SEED = 20
#: in continuous integration sixteen a name; the nightly run tries 180
CALLS = 10_000 if os.environ.get("CI") else 2_500

pytestmark = pytest.mark.timeout(600)


@pytest.mark.long
@pytest.mark.parametrize(
    "calls", [CALLS, pytest.param(115_000, marks=[pytest.mark.slow, pytest.mark.timeout(7200)])]
)
def test_every_call_ends_in_a_result_or_an_error_of_mx(calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MX_FUZZ_SECONDS", "60")  # other tests may have the processors
    outcomes = fuzz_operators.fuzz(SEED, calls)
    bad = [outcome for outcome in outcomes if outcome.kind not in workers.GOOD]
    assert not bad, "\n".join(map(str, bad))
    results = [outcome for outcome in outcomes if outcome.kind == "result"]
    assert len(results) > calls // 3, "most of what is called makes no sense; nothing is tested"


def test_calls_repeat() -> None:
    names = random_calls.all_operators()
    assert random_calls.make(1, 17, names) == random_calls.make(1, 17, names)
    assert random_calls.make(1, 17, names) != random_calls.make(2, 17, names)


PROBE = """
from typing import Any
import mx_core
from mx_core.operator import Operator

class Probe(Operator):
    name = "test_probe"
    differentiable = False

    def reference(self, p: Any, inputs: Any, ctx: Any) -> Any:
        {body}

@mx_core.hookimpl
def mx_register_operators(registry: Any) -> None:
    registry.add(Probe)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("body", "kind", "seconds"),
    [
        ("raise KeyError('lost')", "foreign", "60"),
        ("__import__('os').abort()", "death", "60"),
        ("__import__('time').sleep(60)", "hang", "1"),
        ("return [inputs[0]]", "result", "60"),
    ],
)
def test_what_is_wrong_is_found(
    body: str, kind: str, seconds: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers with one more operator, whose reference does something, are judged and replaced."""
    (tmp_path / "probe.py").write_text(PROBE.format(body=body))
    metadata = tmp_path / "probe-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: probe\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[mx.plugins.v1]\nprobe = probe\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("MX_FUZZ_OPERATORS", "test_probe")
    monkeypatch.setenv("MX_FUZZ_SECONDS", seconds)
    kinds = [outcome.kind for outcome in fuzz_operators.fuzz(3, 3, workers=1)]
    assert kind in kinds
    assert set(kinds) <= {kind, "refused"}


@pytest.mark.long
@pytest.mark.parametrize(
    "files",
    [1800, pytest.param(48_500, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])],
)
def test_every_damaged_file_is_read_or_refused(files: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MX_FUZZ_SECONDS", "60")  # other tests may have the processors
    outcomes = fuzz_files.fuzz(SEED, files)
    bad = [outcome for outcome in outcomes if outcome.kind not in workers.GOOD]
    assert not bad, "\n".join(map(str, bad))
    for name in damaged_files.NAMES:
        kinds = [outcome.kind for outcome in outcomes if outcome.operator == name]
        assert kinds.count("refused") > len(kinds) // 20, f"{name}: what is damaged is not noticed"


def test_files_repeat() -> None:
    assert damaged_files.make(1, 17) == damaged_files.make(1, 17)
    assert damaged_files.make(1, 17) != damaged_files.make(2, 17)
