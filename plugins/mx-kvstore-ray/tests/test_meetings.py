# SPDX-License-Identifier: Apache-2.0
"""Where all workers meet: each must have called the same."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

pytest.importorskip("mx_kvstore_ray", reason="mx-kvstore-ray is not installed")

from asked_server import Job, run, settled


def test_meetings_of_different_calls_are_refused(folder: Path) -> None:
    async def program() -> None:
        job = Job(folder, 3)
        for n in (1, 2):
            for rank in (0, 1, 2):
                await asyncio.sleep(0)
                task = asyncio.create_task(job.ask(rank, "barrier", n=n, called=f"call {n}", keys=0))
            await task
        first = [
            asyncio.create_task(job.ask(rank, "barrier", n=3, called="barrier", keys=0)) for rank in (0, 2)
        ]
        await settled(first)
        said = re.escape(
            "ProtocolError: [KVStore] workers do different things at the same place: worker 0: barrier; worker 1: "
            "load_optimizer_states; worker 2: barrier; all workers must call the same methods in the same order"
        )
        for call in (job.ask(1, "barrier", n=3, called="load_optimizer_states", keys=0), *first):
            with pytest.raises(RuntimeError, match=said):
                await call

    run(program)
