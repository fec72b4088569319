# SPDX-License-Identifier: Apache-2.0
"""Finds benchmarks, runs them under a time limit, and sums up the records that they print."""

from __future__ import annotations

import argparse
import ast
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .distributions import ROOT, distributions


@dataclass
class Outcome:
    """How a benchmark ended, and what it printed.

    Attributes
    ----------
    status : str
        `"ok"`, `"failed"` or `"did not end within 20 min"`.
    records : list of dict
        What it measured, as `mx_core.testing.benchmark.record` prints it.
    lines : list of str
        Everything else.
    """

    status: str
    records: list[dict[str, object]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def summary(self) -> list[str]:
        """Its records, or where it printed none, what it said last."""
        return [text(r) for r in self.records] or self.lines[-8:]


def scripts(wanted: Collection[str] = (), root: Path = ROOT) -> dict[str, Path]:
    """Benchmarks by `package/script`: all, or those of some packages (`engine`) or names (`push`)."""
    found = {}
    for name, distribution in distributions(root).items():
        short = name.removeprefix("mx-")
        for script in sorted((distribution.folder / "benchmarks").glob("bench_*.py")):
            question = script.stem.removeprefix("bench_")
            if not wanted or {name, short, script.stem, question} & set(wanted):
                found[f"{short}/{question}"] = script
    return found


def arguments(words: Sequence[str]) -> argparse.Namespace:
    """`wanted`, packages and names; `limit`, seconds for each, None for what each declares.

    Raises
    ------
    SystemExit
        A word chooses no benchmark, or is no option; what there is was printed.
    """
    parser = argparse.ArgumentParser(prog="nox -s bench --")
    parser.add_argument("wanted", nargs="*")
    parser.add_argument("--limit", type=float, help="seconds for each; by default what each declares")
    given = parser.parse_args(words)
    if none := unknown(given.wanted):
        parser.error(f"no benchmark matches {', '.join(none)}; there are: {', '.join(scripts())}")
    return given


#: minutes that a benchmark may take which declares none
MINUTES = 20


def limit_of(script: Path) -> float:
    """Seconds that a benchmark may take: its constant `MINUTES`, times 60."""
    for node in ast.parse(script.read_text()).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["MINUTES"]:
            return 60.0 * float(ast.literal_eval(node.value))
    return 60.0 * MINUTES


def unknown(wanted: Collection[str], root: Path = ROOT) -> list[str]:
    """Words that choose no benchmark."""
    return [word for word in wanted if not scripts([word], root)]


def parse(line: str) -> dict[str, object] | None:
    """The record in a line of output; None where there is none."""
    return json.loads(line) if line.startswith('{"name": ') else None


def text(record: Mapping[str, object]) -> str:
    """A record as a line to read; a ratio within its spread of 1 is called equal."""
    value, unit, ratio, spread = (record[k] for k in ("value", "unit", "ratio", "spread"))
    line = f"{record['name']:40} {value:>10g} {unit:10}"
    if not isinstance(ratio, (int, float)):
        return line.rstrip()
    noise = spread if isinstance(spread, (int, float)) else 0.0
    digits = 3 if 0 < noise < 0.005 else 2
    measured = f"{ratio:.{digits}f} ± {noise:.{digits}f}" if noise else f"{ratio:.2f}"
    if noise and abs(ratio - 1) <= noise:
        return f"{line} equal to {record['baseline']} ({measured})"
    return f"{line} {measured} x {record['baseline']}"


def run(
    python: str, script: Path, limit: float, env: Mapping[str, str], show: Callable[[str], object] = print
) -> Outcome:
    """Runs a script and shows what it prints.

    Parameters
    ----------
    python : str
        The interpreter.
    script : Path
        The benchmark.
    limit : float
        Seconds after which it and its children are killed.
    env : mapping
        Environment variables.
    """
    outcome = Outcome("ok")
    late = threading.Event()
    with subprocess.Popen(
        [python, "-u", str(script)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", cwd=ROOT, start_new_session=True, env=dict(env),
    ) as process:  # fmt: skip

        def stop() -> None:
            if process.poll() is None:
                late.set()
                os.killpg(process.pid, signal.SIGKILL)  # its children too, who hold the pipe

        timer = threading.Timer(limit, stop)
        timer.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                record = parse(line)
                if record is None:
                    outcome.lines.append(line.rstrip())
                else:
                    outcome.records.append(record)
                show(line.rstrip() if record is None else text(record))
            code = process.wait()
        except BaseException:
            stop()
            raise
        finally:
            timer.cancel()
    passed = f"did not end within {limit / 60:.3g} min"
    outcome.status = passed if late.is_set() else "failed" if code else "ok"
    return outcome


def run_all(
    python: str,
    chosen: Mapping[str, Path],
    limit: float | None,
    env: Mapping[str, str],
    show: Callable[[str], object] = print,
) -> list[str]:
    """Runs benchmarks one after the other, then shows a summary; returns those that did not end well.

    Without a limit each has its own.
    """
    outcomes = {}
    for name, script in chosen.items():
        show(f"---- {name}")
        outcomes[name] = run(python, script, limit_of(script) if limit is None else limit, env, show)
    show("")
    for name, outcome in outcomes.items():
        show(f"{name:32} {outcome.status}")
        for line in outcome.summary():
            show(f"    {line}")
    return [name for name, outcome in outcomes.items() if outcome.status != "ok"]
