# SPDX-License-Identifier: Apache-2.0
"""Programs in forks of an interpreter that has loaded what they share, which a fresh interpreter takes long to load."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from types import TracebackType
from typing import Self

_SERVER = """
import json, os, signal, sys, traceback, warnings

def child(given, end):
    for stream in (1, 2):
        os.dup2(end, stream)
    signal.alarm(int(given["timeout"]))
    status = 1
    try:
        exec(compile(given["program"], "<program>", "exec"), {"__name__": "__main__", **given["names"]})
        status = 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)

exec(sys.argv[1], shared := {})
answers = os.fdopen(os.dup(1), "w")
for line in sys.stdin:
    given = json.loads(line)
    begin, end = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # threads of NumPy's library wait for work
        pid = os.fork()
    if pid == 0:
        given["names"] = {**shared, **given["names"]}
        child(given, end)
    os.close(end)
    with os.fdopen(begin, "rb") as pipe:
        output = pipe.read().decode(errors="replace")
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    answers.write(json.dumps([status, output]) + "\\n")
    answers.flush()
"""


@dataclass(frozen=True)
class Done:
    """How a program ended: its status, negative by a signal, and all that it has printed."""

    status: int
    output: str


class Forks:
    """Runs programs one at a time, each in a process of its own that begins after `loaded`.

    Nothing of mx may be loaded there if a program is to see its import. What a program starts besides it, such as
    handlers of the exit, does not run: it ends with `os._exit`.

    Examples
    --------
    >>> with Forks("import math") as forks:
    ...     forks.run("print(math.floor(x))", x=2.5), forks.run("import os; os.abort()").status
    (Done(status=0, output='2\\n'), -6)
    """

    def __init__(self, loaded: str = "import numpy", *options: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, *options, "-c", _SERVER, loaded],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, program: str, timeout: float = 120, **names: object) -> Done:
        """Runs a program with some names, whose values JSON has; one that does not end in time is killed.

        Raises
        ------
        RuntimeError  what is loaded before has failed
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        try:
            stdin.write(json.dumps({"program": program, "timeout": timeout, "names": names}) + "\n")
            stdin.flush()
            line = stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise RuntimeError(f"the interpreter to fork has ended: {self._process.wait()}")
        return Done(*json.loads(line))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._process.communicate()
