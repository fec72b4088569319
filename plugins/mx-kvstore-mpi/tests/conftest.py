# SPDX-License-Identifier: Apache-2.0
"""Starting jobs of several processes, which end with the test whatever happens."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

MX = (sys.executable, "-m", "mx_core.cli")


def _takes_ctrl_c() -> None:
    """In the child: a shell's background job ignores it, as these tests may be one."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Running:
    """`mx launch` with a program, its output as it comes."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=_takes_ctrl_c,  # it calls nothing that another thread may hold
        )
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.lines.append(line)
                self._changed.notify_all()

    @property
    def text(self) -> str:
        return "".join(self.lines)

    def wait_for(self, pattern: str, count: int = 1, timeout: float = 60.0) -> list[str]:
        """The first groups of `count` matches in the output."""
        with self._changed:
            found = self._changed.wait_for(lambda: len(re.findall(pattern, self.text)) >= count, timeout)
        assert found, f"{pattern!r} did not come {count} times within {timeout} s in:\n{self.text}"
        return re.findall(pattern, self.text)

    def wait(self, timeout: float = 90.0) -> int:
        status = self.process.wait(timeout)
        self._reader.join(5.0)
        return status

    def servers(self) -> list[int]:
        """Numbers of the processes of servers."""
        launcher = self.process.pid
        children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
        return [
            int(pid)
            for pid in children
            if b"mx_kvstore_mpi.server" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20.0)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._reader.join(5.0)
        assert self.process.stdout is not None
        self.process.stdout.close()


Start = Callable[..., Running]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """start(program, n, *options): a job of n workers."""
    jobs = []

    def begin(
        program: str, workers: int, *options: str, runner: tuple[str, ...] = (), **more: str
    ) -> Running:
        path = tmp_path / f"program{len(jobs)}.py"
        path.write_text(program)
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("DMLC_", "MX_KV", "PMI"))
        }
        environment |= {
            "MX_KVSTORE_ENGINE": "mpi",  # another plug-in may have stores of these names, too
            "MXNET_CPU_WORKER_NTHREADS": "1",
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
            **more,
        }
        command = runner or (*MX, "launch", "-n", str(workers), *options)
        jobs.append(Running([*command, sys.executable, str(path)], environment))
        return jobs[-1]

    yield begin
    for job in jobs:
        job.end()


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and is still listed does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


@pytest.fixture
def gone() -> Callable[[list[int]], None]:
    """gone(pids): all of them end within some seconds."""

    def check(pids: list[int]) -> None:
        limit = time.monotonic() + 10.0
        while any(map(is_alive, pids)) and time.monotonic() < limit:
            time.sleep(0.05)
        assert not [pid for pid in pids if is_alive(pid)], "processes were left behind"

    return check
