# SPDX-License-Identifier: Apache-2.0
"""Worker processes that try numbered inputs one by one; a death or a hang is an outcome, and another worker goes on."""

from __future__ import annotations

import argparse
import faulthandler
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import sanitized

ADDRESS_SPACE = 8 << 30  # bytes, of a worker
SECONDS = float(os.environ.get("MX_FUZZ_SECONDS", "12"))  # of one input
FOR = float(os.environ.get("MX_FUZZ_FOR", "inf"))  # seconds after which a worker begins no further input
GUARDED_FOR = min(1.0, SECONDS / 4)  # seconds for which a watchdog serves
GOOD = ("result", "refused")


@dataclass(frozen=True)
class Outcome:
    """`kind` is one of result, refused (with an MXNetError), foreign (another exception), memory, hang, death."""

    number: int
    kind: str
    operator: str
    detail: str


def resident() -> int:
    """Bytes of memory that the process had at most so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def detail_of(error: BaseException) -> str:
    """Type, message and the innermost line."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}: {error} ({place})"


def work(numbers: range, name: Callable[[int], str], judge: Callable[[int], Outcome]) -> None:
    """Tries inputs in this process, and reports each as one line on standard output, without details where it is good.

    The watchdog is a thread, and the reader of a pipe another process: the one is woken once a second and the
    other at the end, as an input takes a millisecond and a change of threads on a busy machine many.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sanitized.MARK not in os.environ:
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    faulthandler.enable()
    guarded, end = -math.inf, time.monotonic() + FOR
    for number in numbers:
        now = time.monotonic()
        if now > end:
            break
        if now - guarded > GUARDED_FOR:
            faulthandler.dump_traceback_later(SECONDS + GUARDED_FOR, exit=True)
            guarded = now
        print(json.dumps({"begin": number, "operator": name(number)}), flush=True)
        outcome = judge(number)
        if outcome.kind in GOOD:
            outcome = replace(outcome, detail="")
        print(json.dumps(vars(outcome)), flush=True)
    faulthandler.cancel_dump_traceback_later()


def supervise(
    script: str, seed: int, numbers: range, settings: Mapping[str, str] | None = None
) -> list[Outcome]:
    """Runs `script --work SEED START STOP STEP` with some environment variables, anew after each death."""
    outcomes: list[Outcome] = []
    while len(numbers):
        with tempfile.TemporaryFile("w+") as log, tempfile.TemporaryFile("w+") as reports:
            bounds = map(str, (numbers.start, numbers.stop, numbers.step))
            command = [sys.executable, script, "--work", str(seed), *bounds]
            environment = os.environ | {"PYTHONWARNINGS": "ignore"} | dict(settings or {})
            begun: dict[str, Any] | None = None
            status = subprocess.run(
                command, stdout=reports, stderr=log, env=environment, check=False
            ).returncode
            reports.seek(0)
            for line in reports:
                report = json.loads(line)
                if "begin" in report:
                    begun = report
                else:
                    outcomes.append(Outcome(**report))
                    begun = None
            log.seek(0)
            words = log.read()
        if begun is None:
            if status != 0:
                raise RuntimeError(f"a worker ended with {status} outside of its inputs: {words}")
            return outcomes
        kind = "hang" if "Timeout (" in words else "death"
        words = (
            words[words.find("ERROR: AddressSanitizer") :][:1500]
            if "AddressSanitizer" in words
            else words[-1500:]
        )
        outcomes.append(Outcome(begun["begin"], kind, begun["operator"], f"status {status}: {words}"))
        numbers = range(begun["begin"] + numbers.step, numbers.stop, numbers.step)
    return outcomes


def fuzz(
    script: str,
    seed: int,
    inputs: int,
    workers: int = 2,
    first: int = 0,
    settings: Mapping[str, str] | None = None,
) -> list[Outcome]:
    """The outcomes of `inputs` inputs from number `first` on, in the order of their numbers."""
    shares: list[list[Outcome]] = [[] for _ in range(workers)]

    def share(i: int) -> None:
        shares[i] = supervise(script, seed, range(first + i, first + inputs, workers), settings)

    threads = [threading.Thread(target=share, args=(i,)) for i in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = sorted((o for share in shares for o in share), key=lambda o: o.number)
    if len(found) != inputs and FOR == math.inf:
        raise RuntimeError(f"{len(found)} outcomes of {inputs} inputs; a worker could not run")
    return found


def command_line(
    script: str, description: str | None, work: Callable[[int, range], None], show: Callable[[int, int], None]
) -> int:
    """The command line of a script: its inputs, one of them again, or the share of a worker.

    Parameters
    ----------
    script, description
        Its path and its docstring.
    work : callable
        `(seed, numbers)`: tries inputs in this process.
    show : callable
        `(seed, number)`: tries one that is looked into.

    Returns
    -------
    int
        The exit code: 1 if something is wrong.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("inputs", nargs="?", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--sanitize",
        type=Path,
        metavar="FOLDER",
        help="the last tenth under AddressSanitizer, built in the folder",
    )
    parser.add_argument("--show", type=int, metavar="NUMBER", help="try one input in this process")
    parser.add_argument("--work", type=int, nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work[0], range(*options.work[1:]))
        return 0
    if options.show is not None:
        show(options.seed, options.show)
        return 0
    checked = options.inputs // 10 if options.sanitize else 0
    if options.sanitize:
        sanitized.build(options.sanitize)
    unchecked = options.inputs - checked
    outcomes = fuzz(script, options.seed, unchecked, options.workers)
    if checked:
        settings = sanitized.environment(options.sanitize)
        outcomes += fuzz(script, options.seed, checked, options.workers, unchecked, settings)
    return report(outcomes)


def report(outcomes: list[Outcome]) -> int:
    """Prints what is wrong, and the counts; 1 if something is."""
    bad = [outcome for outcome in outcomes if outcome.kind not in GOOD]
    for outcome in bad:
        print(f"{outcome.number} {outcome.kind} [{outcome.operator}] {outcome.detail}")
    print(dict(Counter(outcome.kind for outcome in outcomes)))
    return int(bool(bad))
