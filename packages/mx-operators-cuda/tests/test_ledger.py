# SPDX-License-Identifier: Apache-2.0
"""The ledger is well-formed, and the README claims nothing it does not hold."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from mx_core.errors import FileFormatError
from mx_operators_cuda import ledger

PACKAGE = Path(__file__).parents[1]
LEDGER = ledger.SHIPPED


def entry(name: str, source: str) -> ledger.Entry:
    return ledger.Entry(name, source, "NVIDIA H200", "580.65", "13.0", "2026-01-31", 1e-7, 4000.0)


def test_readme_states_what_the_ledger_shows() -> None:
    states = ledger.states(ledger.load(LEDGER))
    verified = sum(state == "verified" for state in states.values())
    claim = f"Verified on a GPU: {verified} of {len(states)} samples"
    assert claim in (PACKAGE / "README.md").read_text()


def test_what_no_gpu_has_run_is_named() -> None:
    readme = " ".join((PACKAGE / "README.md").read_text().split())
    for what in ledger.UNCONFIRMED:
        assert what in readme and what in ledger.summary()


def test_an_entry_holds_for_one_source() -> None:
    name, sample = next(iter(ledger.samples().items()))
    assert ledger.states([])[name] == "never"
    assert ledger.states([entry(name, "0" * 64)])[name] == "stale"
    current = ledger.fingerprint(sample)
    assert ledger.states([entry(name, "0" * 64), entry(name, current)])[name] == "verified"
    assert len({ledger.fingerprint(s) for s in ledger.samples().values()}) == len(ledger.samples())


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    rows = [entry(name, "a" * 64) for name in ledger.samples()]
    path.write_text(json.dumps([asdict(row) for row in rows]))
    assert ledger.load(path) == tuple(rows)


def test_a_new_entry_replaces_those_of_its_sample_and_gpu(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    path.write_text("[]")
    first, second = list(ledger.samples())[:2]
    for name, source in ((first, "a" * 64), (second, "b" * 64), (first, "c" * 64)):
        ledger.record(path, entry(name, source))
    assert [(row.kernel, row.source[0]) for row in ledger.load(path)] == [(second, "b"), (first, "c")]


def test_the_summary_counts_the_states() -> None:
    states = list(ledger.states(ledger.load(LEDGER)).values())
    for state in ("verified", "stale", "never"):
        assert f"{states.count(state)} {state}" in ledger.summary()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kernel": "nothing"}, "unknown sample 'nothing'"),
        ({"source": "abc"}, "expected 64 hexadecimal digits"),
        ({"date": "yesterday"}, "expected 2026-01-31"),
        ({"max_relative_error": "small"}, "max_relative_error: expected a float"),
        ({"note": "?"}, "expected the fields"),
    ],
)
def test_malformed(change: dict[str, object], message: str, tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    path.write_text(json.dumps([asdict(entry("add float32", "a" * 64)) | change]))
    with pytest.raises(FileFormatError, match=message):
        ledger.load(path)
    path.write_text("{")
    with pytest.raises(FileFormatError, match=str(path)):
        ledger.load(path)
