# SPDX-License-Identifier: Apache-2.0
"""Checks a plug-in in a process of its own, which may die, hang or print: the checks after it go on.

`python -m mx_core.testing.guard NAME START DESCRIPTOR` is that process.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict
from time import monotonic, sleep
from typing import Any

from mx_core.plugins.discovery import PluginRecord
from mx_core.testing import progress
from mx_core.testing.plugin import Result, check_plugin, subjects

#: Seconds that one step of a check may take where no other program needs the processors: one run of a kernel or a
#: reference, one test of a contract.
LIMIT = 30.0
#: A check of many steps may take this many times as long.
STEPS = 5
#: The most that other programs lengthen limits by.
_MOST = 4.0
#: Seconds of silence after which it is said what is being waited for; then after twice as many, and so on.
_SILENCE = 5.0

#: The check that fails if a thread or a hook of the plug-in keeps the process from ending, or ends it otherwise.
ENDS = "its process ends"

#: Called with what is being waited for and the seconds it takes already.
Waiting = Callable[[str, float], None]


def check_guarded(
    record: PluginRecord, limit: float | None = None, waiting: Waiting | None = None
) -> Iterator[Result]:
    """As `mx_core.testing.plugin.check_plugin`; a check that ends its process or does not end has failed.

    Parameters
    ----------
    limit : float
        Seconds that one step of a check may take, such as one run of a kernel; a check of many steps may take five
        times as long. By default 30, and longer in proportion where more threads want to run than there are processors.
    waiting : callable
        Is told what is being waited for, and for how many seconds, when that is long.
    """
    start, everything = 0, subjects(record)
    while start < len(everything):
        at, last, doing, complete = start, "it began", "", False

        def told(seconds: float) -> None:
            if waiting is not None:
                waiting(f"{_subject(everything[at])}, after {last}{doing}", seconds)  # noqa: B023  # of this round

        with _Child(record.name, start) as child:
            for line in child.lines(limit, told):
                if "doing" in line:
                    doing = f", in {line['doing']}"
                    continue
                if line.get("at", at) != at:
                    last = "it began"
                at, doing = line.pop("at", at), ""
                complete = line.pop("complete", False)
                if line:
                    result = Result(**line)
                    last = f"{result.check!r}"
                    yield result
            ended = child.ended(limit)
        if complete:
            if ended is not None:
                yield Result(f"plug-in {record.name!r}", ENDS, f"{ended} after all checks")
            return
        ended = ended or "the process ended with status 0"  # a plug-in may leave as if all were well
        yield Result(_subject(everything[at]), "its checks end", f"{ended} after {last}{doing}")
        start = at + 1


def _subject(of: tuple[str, str]) -> str:
    kind, name = of
    return f"hook {name!r}" if kind == "hooks" else f"{kind.replace('_', ' ')} {name!r}"


def _load() -> float:
    """How many times as long as alone a program takes here now."""
    return min(_MOST, max(1.0, os.getloadavg()[0] / len(os.sched_getaffinity(0))))


class _Child:
    """The process and the pipe on which it reports."""

    def __init__(self, name: str, start: int) -> None:
        self._reading, writing = os.pipe()
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path or os.curdir for path in sys.path))
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "mx_core.testing.guard", name, str(start), str(writing)],
                pass_fds=(writing,), env=environment, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        finally:
            os.close(writing)
        self._late = ""

    def lines(self, limit: float | None, waiting: Callable[[float], None]) -> Iterator[dict[str, Any]]:
        """Reports until the end, or until a step or a check takes too long."""
        pending = b""
        begun = step = monotonic()
        silence = _SILENCE
        while True:
            if not select.select([self._reading], [], [], min(1.0, limit or LIMIT))[0]:
                now = monotonic()
                if now - step >= silence:
                    waiting(now - begun)
                    silence *= 2
                if self._stop(now - step, limit, 1) or self._stop(now - begun, limit, STEPS):
                    return
                continue
            data = os.read(self._reading, 1 << 16)
            if not data:
                return
            *whole, pending = (pending + data).split(b"\n")
            for line in map(json.loads, whole):
                step = monotonic()
                if "doing" not in line:
                    begun, silence = step, _SILENCE
                yield line
            if self._stop(monotonic() - begun, limit, STEPS):
                return

    def _stop(self, seconds: float, limit: float | None, times: int) -> bool:
        """Ends the process if something takes longer than some times a limit."""
        most = times * (limit or LIMIT)
        if seconds > most and limit is None:
            most *= _load()
        if seconds > most:
            self._late = f"no end within {most:.0f} s, which --limit sets,"
            self._process.kill()
        return bool(self._late)

    def ended(self, limit: float | None) -> str | None:
        """None for a process that came to its end; after its last report it has as long for it as for a step."""
        begun = monotonic()
        while self._process.poll() is None and not self._late:
            self._stop(monotonic() - begun, limit, 1)
            sleep(0.01)
        status = self._process.wait()
        if self._late:
            return self._late
        if status < 0:
            return f"the process was ended by {signal.Signals(-status).name}"
        return f"the process ended with status {status}" if status else None

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._reading)
        self._process.kill()
        self._process.wait()


def main(name: str, start: int, descriptor: int) -> None:
    """Runs the checks of a plug-in from subject `start` on and reports on a pipe."""
    from mx_core import plugins

    warnings.simplefilter("ignore")
    with os.fdopen(descriptor, "w", encoding="utf-8", buffering=1) as report:
        progress.listen(lambda text: print(json.dumps({"doing": text}), file=report))
        for record in plugins.plugins():
            if record.name != name:
                continue
            for number in range(start, len(subjects(record))):
                print(json.dumps({"at": number}), file=report)
                for result in check_plugin(record, number):
                    print(json.dumps({"at": number, **asdict(result)}), file=report)
        print(json.dumps({"complete": True}), file=report)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
