# SPDX-License-Identifier: Apache-2.0
"""A server without Ray and the workers that ask it, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mx_core import dtypes
from mx_kvstore_ray.server import Server
from mx_kvstore_ray.settings import ServerPlace

FLOAT = dtypes.code(np.dtype("float32"), "test")
#: of the test that runs
_jobs: list[Job] = []


def run(program: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs a test's program."""
    asyncio.run(asyncio.wait_for(program(), 60.0))


def close() -> None:
    """Closes the servers of a test."""
    for job in _jobs:
        job.server.close()
    _jobs.clear()


class Job:
    """A server and workers that ask it."""

    def __init__(self, folder: Path, workers: int = 2, on_loss: str = "stop", timeout: float = 30.0) -> None:
        self.place = ServerPlace(0, 1, workers, on_loss, str(folder), timeout, 1e9, "first")
        self.server = Server(self.place)
        _jobs.append(self)
        self.starts = [0] * workers

    def kill(self) -> None:
        """The server's process ends; the next one has its files."""
        self.server.close()
        self.server = Server(self.place)

    def later(self, workers: int = 2, **more: Any) -> None:
        """The job ends, and another one begins with its files, in another place if so told."""
        self.place = replace(self.place, workers=workers, job=f"after {self.place.job}", **more)
        self.starts = [0] * workers
        self.kill()

    async def ask(self, worker: int | None, command: str, data: Any = None, /, **told: Any) -> Any:
        stamp = None if worker is None else (worker, self.starts[worker])
        bits = None if data is None else np.asarray(data).view(np.uint8).reshape(-1)
        error, answer, found = await self.server.answer(command, stamp, {"store": 0, **told}, bits)
        if error is not None:
            raise RuntimeError(": ".join(error))
        return answer if found is None else found.view(np.float32).copy()

    async def init(self, key: Any, values: list[float]) -> None:
        await self.ask(0, "init", np.float32(values), key=key, shape=[len(values)], code=FLOAT)

    async def push(
        self,
        rank: int,
        n: int,
        values: Any,
        key: Any = "w",
        rates: Any = None,
        command: str = "push",
        how: Any = None,
        keys: int = 1,
    ) -> Any:
        data = np.asarray(values, np.uint32 if how else np.float32)
        one = {
            "store": 0,
            "key": key,
            "n": n,
            "bytes": data.nbytes,
            "rates": rates or {},
            "how": how,
            "keys": keys,
        }
        return await self.ask(rank, command, data, pushes=[one])


async def settled(tasks: list[asyncio.Task[Any]]) -> None:
    for _ in range(5):
        await asyncio.sleep(0)
    assert not any(task.done() for task in tasks), tasks
