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
from collections.abc import Iterator
from dataclasses import asdict
from time import monotonic
from typing import Any

from mx_core.plugins.discovery import PluginRecord
from mx_core.testing import progress
from mx_core.testing.plugin import Result, check_plugin, subjects

#: Seconds one check may take.
LIMIT = 120.0


def check_guarded(record: PluginRecord, limit: float = LIMIT) -> Iterator[Result]:
    """As `mx_core.testing.plugin.check_plugin`; a check that ends its process or does not end has failed.

    Parameters
    ----------
    limit : float
        Seconds that one check may take.
    """
    start, everything = 0, subjects(record)
    while start < len(everything):
        at, last, doing, complete = start, "it began", "", False
        with _Child(record.name, start) as child:
            for line in child.lines(limit):
                if "doing" in line:
                    doing = f", in {line['doing']}"
                    continue
                at, doing = line.pop("at", at), ""
                complete = line.pop("complete", False)
                if line:
                    result = Result(**line)
                    last = f"{result.check!r}"
                    yield result
            ended = child.ended()
        if ended is None and complete:
            return
        ended = ended or "the process ended with status 0"  # a plug-in may leave as if all were well
        kind, name = everything[at]
        yield Result(f"{kind.replace('_', ' ')} {name!r}", "its checks end", f"{ended} after {last}{doing}")
        start = at + 1


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
        self._late = False

    def lines(self, limit: float) -> Iterator[dict[str, Any]]:
        """Reports until the end, or until there is none but of what it is doing for too long."""
        pending, end = b"", monotonic() + limit
        while select.select([self._reading], [], [], max(0.0, end - monotonic()))[0]:
            data = os.read(self._reading, 1 << 16)
            if not data:
                return
            *whole, pending = (pending + data).split(b"\n")
            for line in map(json.loads, whole):
                if "doing" not in line:
                    end = monotonic() + limit
                yield line
        self._late = True
        self._process.kill()

    def ended(self) -> str | None:
        """None for a process that came to its end."""
        status = self._process.wait()
        if self._late:
            return "no end within the time limit"
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
