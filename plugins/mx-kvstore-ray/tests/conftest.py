# SPDX-License-Identifier: Apache-2.0
"""Starting jobs of several processes, which end with the test whatever happens."""

from __future__ import annotations

import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

#: a variable by which all processes of a job are found
MARK = "MX_TEST_RAY_MARK"


def pids_of(mark: str) -> dict[int, str]:
    """The processes that have the mark in their environment, and what they are called."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() not in (folder / "environ").read_bytes():
                continue
            if (folder / "stat").read_text().rpartition(")")[2].split()[0] in ("Z", "X"):
                continue
            found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
    return found


def folders_of(mark: str) -> set[str]:
    """The folders of a job that runs: one of its processes is told to remove them."""
    return {word for name in pids_of(mark).values() for word in re.findall(r"(\S*/mx-ray-\w+) ", name)}


class Running:
    """A launcher with a program, its output as it comes."""

    def __init__(self, command: list[str], folder: Path, environment: dict[str, str]) -> None:
        self.mark = secrets.token_hex(8)
        self.folders: set[str] = set()
        self.process = subprocess.Popen(
            command, cwd=folder, env={**environment, MARK: self.mark}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )  # fmt: skip
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.see_folders()
            with self._changed:
                self.lines.append(line)
                self._changed.notify_all()

    def see_folders(self) -> None:
        """Finds the job's folders while it runs, for the look at what is left."""
        self.folders = self.folders or folders_of(self.mark)

    @property
    def text(self) -> str:
        return "".join(self.lines)

    def wait_for(self, pattern: str, count: int = 1, timeout: float = 250.0) -> list[str]:
        """The first groups of `count` matches in the output."""
        with self._changed:
            found = self._changed.wait_for(lambda: len(re.findall(pattern, self.text)) >= count, timeout)
        assert found, f"{pattern!r} did not come {count} times within {timeout} s in:\n{self.text}"
        return re.findall(pattern, self.text)

    def wait(self, timeout: float = 250.0) -> int:
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the job did not end within {timeout} s:\n{self.text}") from None
        self._reader.join(5.0)
        return status

    def pids(self) -> set[int]:
        """Numbers of all processes."""
        return set(pids_of(self.mark))

    def servers(self) -> list[int]:
        """Numbers of the processes of servers."""
        return [pid for pid, name in pids_of(self.mark).items() if name.startswith("ray::ParameterServer")]

    def check_nothing_is_left(self) -> None:
        assert len(self.folders) > 1, "the job had none"
        limit = time.monotonic() + 20.0
        while (pids_of(self.mark) or any(map(os.path.exists, self.folders))) and time.monotonic() < limit:
            time.sleep(0.1)
        assert not pids_of(self.mark), "processes were left behind"
        assert not [folder for folder in self.folders if os.path.exists(folder)], "files were left behind"

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60.0)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._reader.join(5.0)
        for pid in pids_of(self.mark):
            os.kill(pid, signal.SIGKILL)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def folder() -> Iterator[Path]:
    """For the files of servers that a test asks: in memory where that is possible, as each checkpoint is flushed."""
    import asked_server

    where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=where) as found:
        yield Path(found)
        asked_server.close()


Start = Callable[..., Running]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """start(program, n, *options): a job of n workers."""
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed")
    jobs: list[Running] = []

    def begin(program: str, workers: int, *options: str, **more: str) -> Running:
        path = tmp_path / f"program{len(jobs)}.py"
        path.write_text(program)
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("DMLC_", "MX_KV", "RAY_"))
        }
        kept |= {
            "MXNET_CPU_WORKER_NTHREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", **more,
        }  # fmt: skip
        command = [
            sys.executable,
            "-m",
            "mx_core.cli",
            "launch",
            "-n",
            str(workers),
            "--engine",
            "ray",
            *options,
        ]
        jobs.append(Running([*command, sys.executable, str(path)], tmp_path, kept))
        return jobs[-1]

    yield begin
    for job in jobs:
        job.end()
