# SPDX-License-Identifier: Apache-2.0
"""Everything that needs a GPU, in one command of at most nine minutes: `python -m mx_operators_cuda.confirm`.

It runs the tests of a checkout, on a machine with a GPU. Samples whose source has changed since a GPU last ran it
come first, then those that none has run, then the tests of `tests/on_gpu`, then what is confirmed already. Report and
ledger are written after each step, so that a run that is cut off loses only its last one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mx_core.errors import MXNetError
from mx_operators_cuda import ledger

MINUTES = 9.0
#: files of `tests/on_gpu` that `test_gpu.py` runs, those of what was added last first
RUN_ON_GPU = (
    "fused_attention", "recurrent_by_cudnn", "captured", "epilogues", "mixed_precision", "convolutions",
    "fused_convolutions", "normalizations", "detectors", "vision", "samplers", "arithmetic", "plans", "memory",
    "operators", "layers", "indices", "losses", "recurrent", "arrays", "user_kernels", "stores", "graphs",
    "networks", "python_code", "captured_changes", "captured_sequences",
)  # fmt: skip
_FIRST, _LAST = ("stale", "never"), ("verified",)


@dataclass(frozen=True)
class Step:
    """One pytest run.

    Parameters
    ----------
    name : str
        In the report.
    selection : str
        What pytest is given, relative to the tests.
    """

    name: str
    selection: str


@dataclass(frozen=True)
class Outcome:
    """How a step went: `passed`, `failed`, or `not reached`, with seconds and the end of what it printed."""

    step: Step
    state: str
    seconds: float = 0.0
    output: str = ""


def steps(entries: Sequence[ledger.Entry], files: Sequence[str]) -> list[Step]:
    """All steps in their order; `files` are the names of the tests on a GPU."""
    states = ledger.states(entries)

    def samples(wanted: Sequence[str]) -> list[Step]:
        return [
            Step(f"{state}: {name}", f"test_gpu.py::test_sample[{name}]")
            for state in wanted
            for name, found in states.items()
            if found == state
        ]

    tests = [Step(f"tests: {name}", f"test_gpu.py::test_on_gpu[{name}]") for name in files]
    return [*samples(_FIRST), *tests, *samples(_LAST)]


def chosen(todo: Sequence[Step], words: Sequence[str]) -> list[Step]:
    """The steps whose names have one of the words; without words all."""
    return [step for step in todo if not words or any(word in step.name for word in words)]


def entries_in(output: str) -> list[ledger.Entry]:
    """The lines of the ledger among what a step printed."""
    found = []
    for line in output.splitlines():
        begin = line.find('{"kernel":')
        if begin >= 0:
            row = json.JSONDecoder().raw_decode(line[begin:])[0]
            found.append(ledger.Entry(**row))
    return found


def run(
    todo: Sequence[Step],
    path: Path,
    execute: Callable[[Step, float], tuple[bool, str]],
    *,
    seconds: float = MINUTES * 60,
    tell: Callable[[Sequence[Outcome]], object] = lambda outcomes: None,
    clock: Callable[[], float] = time.monotonic,
) -> list[Outcome]:
    """Steps one after another, as long as there is time.

    Parameters
    ----------
    path : Path
        The ledger, which gets each result at once.
    execute : callable
        From a step and the seconds it may take to whether it passed, and what it printed.
    tell : callable
        Is given all outcomes after each step.
    """
    end, outcomes = clock() + seconds, list[Outcome]()
    for step in todo:
        left = end - clock()
        if left <= 0:
            outcomes.append(Outcome(step, "not reached"))
            continue
        begin = clock()
        passed, output = execute(step, left)
        for entry in entries_in(output) if passed else ():
            ledger.record(path, entry)
        outcomes.append(Outcome(step, "passed" if passed else "failed", clock() - begin, output))
        tell(outcomes)
    tell(outcomes)
    return outcomes


def report(outcomes: Sequence[Outcome]) -> str:
    """A line per step, then what failing ones printed."""
    lines = [f"{o.state:12} {o.seconds:6.1f} s  {o.step.name}" for o in outcomes]
    for outcome in outcomes:
        if outcome.state == "failed":
            lines += ["", f"==== {outcome.step.name}", outcome.output[-4000:]]
    return "\n".join([*lines, ""])


def _pytest(tests: Path, step: Step, seconds: float) -> tuple[bool, str]:
    where = str(tests / step.selection)
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:xdist", "--capture=no", where]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired as error:
        printed = error.stdout or b""
        return False, (printed.decode() if isinstance(printed, bytes) else printed) + "\nran out of time"
    return done.returncode == 0 and " passed" in done.stdout, done.stdout + done.stderr


def main(words: Sequence[str] | None = None) -> int:
    """Runs the command; 1 if a step failed or was not reached."""
    parser = argparse.ArgumentParser(prog="python -m mx_operators_cuda.confirm", description=__doc__)
    parser.add_argument("--minutes", type=float, default=MINUTES, help="time for all steps, 9 by default")
    parser.add_argument("--ledger", type=Path, default=ledger.SHIPPED, help="by default the package's own")
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="WORD", help="steps whose names have one of the words"
    )
    parser.add_argument(
        "--tests", type=Path, default=Path(__file__).parents[2] / "tests",
        help="the folder of the package's tests, by default that of the checkout which it is imported from",
    )  # fmt: skip
    parser.add_argument("--report", type=Path, default=Path("gpu-report.txt"))
    given = parser.parse_args(words)
    from mx_operators_cuda import device

    problem = device.missing()
    if problem:
        raise SystemExit(f"no GPU to confirm anything on: {problem}")
    if not (given.tests / "on_gpu").is_dir():
        raise SystemExit(
            f"this needs the tests of a checkout: {given.tests / 'on_gpu'} is not there; use --tests"
        )
    try:
        todo = chosen(steps(ledger.load(given.ledger), RUN_ON_GPU), given.only)
    except MXNetError as error:
        raise SystemExit(str(error)) from None
    outcomes = run(
        todo, given.ledger, partial(_pytest, given.tests), seconds=given.minutes * 60,
        tell=lambda so_far: given.report.write_text(report(so_far)),
    )  # fmt: skip
    print(report(outcomes))
    return 0 if all(outcome.state == "passed" for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
