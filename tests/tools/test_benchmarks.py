# SPDX-License-Identifier: Apache-2.0
"""How benchmarks are found, run and summed up."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from mx_core.testing.benchmark import record
from tools.benchmarks import arguments, limit_of, parse, run, run_all, scripts, text, unknown

EQUAL = {"name": "add", "value": 20.0, "unit": "GB/s", "baseline": "NumPy", "ratio": 1.02, "spread": 0.04}


def script(folder: Path, body: str) -> Path:
    """A benchmark."""
    path = folder / "bench_it.py"
    path.write_text(body)
    return path


def test_benchmarks_are_chosen_by_package_and_by_name() -> None:
    assert "engine/push" in scripts()
    assert (
        set(scripts(["engine"]))
        == set(scripts(["mx-engine"]))
        == {n for n in scripts() if n.startswith("engine/")}
    )
    assert list(scripts(["push"])) == list(scripts(["bench_push"])) == ["engine/push"]
    assert unknown(["engine", "nonsense"]) == ["nonsense"]


def test_words_that_choose_no_benchmark_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    given = arguments(["engine", "push", "--limit", "60"])
    assert (given.wanted, given.limit) == (["engine", "push"], 60.0)
    with pytest.raises(SystemExit):
        arguments(["engine", "nonsense"])
    assert "no benchmark matches nonsense; there are: " in capsys.readouterr().err


def test_a_record_is_read_as_it_was_printed(capsys: pytest.CaptureFixture[str]) -> None:
    record("push", 0.612345, "us", baseline="futures", ratio=9.8, spread=0.1)
    line = capsys.readouterr().out
    assert parse(line) == {
        "name": "push", "value": 0.6123, "unit": "us", "baseline": "futures", "ratio": 9.8, "spread": 0.1,
    }  # fmt: skip
    assert parse("plain text") is None


def test_a_ratio_within_its_spread_of_one_is_called_equal() -> None:
    assert text(EQUAL).endswith("equal to NumPy (1.02 ± 0.04)")
    assert text({**EQUAL, "ratio": 1.06}).endswith("1.06 ± 0.04 x NumPy")
    assert text({**EQUAL, "ratio": 0.9931, "spread": 0.0042}).endswith("0.993 ± 0.004 x NumPy")
    assert text({**EQUAL, "spread": None}).endswith("1.02 x NumPy")
    assert text({**EQUAL, "ratio": None}).endswith("GB/s")


def test_records_and_other_lines_are_told_apart(tmp_path: Path) -> None:
    body = "from mx_core.testing.benchmark import record\nprint('two threads')\nrecord('add', 2.0, 'us')\n"
    shown: list[object] = []
    outcome = run(sys.executable, script(tmp_path, body), 60, os.environ, shown.append)
    assert outcome.status == "ok"
    assert [r["name"] for r in outcome.records] == ["add"]
    assert outcome.lines == ["two threads"]
    assert outcome.summary() == [text(outcome.records[0])] == [shown[1]]


def test_a_benchmark_that_prints_no_record_is_summed_up_by_its_end(tmp_path: Path) -> None:
    outcome = run(sys.executable, script(tmp_path, "for i in range(20): print(i)"), 60, os.environ, str)
    assert outcome.summary() == [str(i) for i in range(12, 20)]


def test_a_failure_is_told(tmp_path: Path) -> None:
    failing = script(tmp_path, "raise ValueError('no such device')")
    shown: list[str] = []
    assert run_all(sys.executable, {"it": failing}, 60, os.environ, lambda line: shown.append(str(line))) == [
        "it"
    ]
    assert any("no such device" in line for line in shown)


def test_a_benchmark_over_its_time_is_killed_with_its_children(tmp_path: Path) -> None:
    body = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import time; time.sleep(100)'])\n"
    begin = time.monotonic()
    outcome = run(sys.executable, script(tmp_path, body), 1.5, os.environ, str)
    assert outcome.status == "did not end within 0.025 min"
    assert time.monotonic() - begin < 50


def test_a_benchmark_declares_its_limit(tmp_path: Path) -> None:
    assert limit_of(script(tmp_path, "import time\n")) == 20 * 60
    assert limit_of(script(tmp_path, "#: for all networks\nMINUTES = 90\n")) == 90 * 60
    hanging = script(tmp_path, "import time\nMINUTES = 0.02\ntime.sleep(100)\n")
    shown: list[str] = []
    assert run_all(
        sys.executable, {"it": hanging}, None, os.environ, lambda line: shown.append(str(line))
    ) == ["it"]
    assert any(line.split() == "it did not end within 0.02 min".split() for line in shown)


def test_every_benchmark_of_the_project_has_a_limit_below_three_hours() -> None:
    limits = {name: limit_of(path) / 60 for name, path in scripts().items()}
    assert limits["engine/push"] == 20 and limits["symbol/networks"] > 20
    assert max(limits.values()) < 180
