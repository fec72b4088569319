# SPDX-License-Identifier: Apache-2.0
"""Who waits for whom on a server, while it lasts."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("mx_kvstore_ray", reason="mx-kvstore-ray is not installed")

from mx_kvstore_ray.values import Waiters
from mx_kvstore_ray.waits import Waits


def test_who_waits_for_whom_is_told_while_it_lasts() -> None:
    async def program() -> None:
        waits, waiters = Waits(30.0, lambda rank: lambda: None, set, set), Waiters()
        missing, there = {1, 2}, asyncio.Event()
        whats = [(0, "push 1 of key 'w'"), (0, "push 1 of key 'x'"), (1, "barrier")]
        tasks = [
            asyncio.create_task(
                waits.until(waiters, rank, there.is_set, what, lambda rank=rank: missing - {rank})
            )
            for rank, what in whats
        ]
        await asyncio.sleep(0)
        assert waits.told() == {0: "push 1 of key 'w', for workers 1, 2", 1: "barrier, for worker 2"}
        tasks[0].cancel()
        await asyncio.wait({tasks[0]})
        assert waits.told()[0] == "push 1 of key 'x', for workers 1, 2"
        there.set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        await asyncio.gather(*tasks[1:])
        assert waits.told() == {}
        await waits.until(waiters, 0, there.is_set, "what is there", set)

    asyncio.run(asyncio.wait_for(program(), 20.0))
