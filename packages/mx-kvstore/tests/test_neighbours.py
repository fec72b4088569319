# SPDX-License-Identifier: Apache-2.0
"""Workers that see each other's arrays: here each is a thread of one process, so all of them have one file."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mx_core import services
from mx_core.errors import MXNetError
from mx_kvstore.exchange import SUM, Exchange, Neighbours, Window, push
from mx_ndarray import nd

WORKERS = 3
#: elements of float32: beyond what a storage manager has pages for, and below
LARGE, SMALL = 400_003, 5_000


class Worker:
    def __init__(self, file: int, rank: int) -> None:
        sharing = services.storage("cpu").sharing_capsule
        self.window = Window(file, rank, WORKERS)
        Neighbours(sharing, [Neighbours.file(sharing)[0]] * WORKERS).serve(self.window)
        self.exchange = Exchange(lambda: MXNetError("[test] a worker is lost"))
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.ended = False
        self.thread.start()

    def _run(self) -> None:
        while not self.ended and self.exchange.run(self.window, 0.05).what != "failed":
            pass

    def sum(self, key: int, send: Any, *targets: Any) -> None:
        push(self.exchange, SUM, key, f"push of {key}", 7, 0, (send,), targets)

    def end(self) -> None:
        self.ended = True
        self.window.stop()
        self.exchange.fail()


@pytest.fixture
def workers() -> Iterator[list[Worker]]:
    file = os.memfd_create("test")
    os.ftruncate(file, Window.bytes(WORKERS))
    joined = [Worker(file, rank) for rank in range(WORKERS)]
    os.close(file)
    yield joined
    for worker in joined:
        worker.end()
    for worker in joined:
        worker.thread.join(10.0)
        assert not worker.thread.is_alive()


def shared_bytes() -> int:
    """Of arrays of this process that others may map: their mappings, without those of the whole file."""
    found = 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "memfd:mx_storage" in line:
            begin, end = (int(each, 16) for each in line.split()[0].split("-"))
            found += end - begin if end - begin < 1 << 38 else 0
    return found


def test_sums_where_arrays_lie_have_the_bits_of_the_others(workers: list[Worker]) -> None:
    before = shared_bytes()
    random = np.random.default_rng(1)
    keys = [[worker.exchange.new_key() for _ in range(4)] for worker in workers]
    for _ in range(3):
        values = [
            [random.standard_normal(size).astype(np.float32) for size in (LARGE, SMALL)] for _ in workers
        ]
        large = [nd.array(value[0]) for value in values]
        again = [nd.array(value[0]) for value in values]
        small = [nd.array(value[1]) for value in values]
        outs = [[nd.zeros((LARGE,)) for _ in range(2)] for _ in workers]
        for worker, key, a, b, c, to in zip(workers, keys, large, again, small, outs, strict=True):
            worker.sum(key[0], a, *to)
            worker.sum(key[1], b, b)  # in place
            worker.sum(key[2], c, c)
            worker.sum(key[3], a[:SMALL], c)  # a part of what others read
        first = values[0][0] + values[1][0] + values[2][0]
        for to, b, c, a, value in zip(outs, again, small, large, values, strict=True):
            assert all(out.asnumpy().tobytes() == first.tobytes() for out in (*to, b))
            assert c.asnumpy().tobytes() == first[:SMALL].tobytes()
            assert a.asnumpy().tobytes() == value[0].tobytes()
    assert shared_bytes() >= before + 4 * WORKERS * 4 * LARGE


def test_arrays_of_other_storage_go_another_way(workers: list[Worker]) -> None:
    outs = [nd.zeros((LARGE,)) for _ in workers]
    for rank, (worker, out) in enumerate(zip(workers, outs, strict=True)):
        whole = nd.full((LARGE + 64,), rank + 1)
        worker.sum(worker.exchange.new_key(), whole[64:] if rank == 1 else whole[:LARGE], out)
    assert all((out.asnumpy() == 6).all() for out in outs)


def test_a_lost_worker_ends_the_wait(workers: list[Worker]) -> None:
    outs = [nd.zeros((LARGE,)) for _ in workers]
    for worker, out in zip(workers[:2], outs, strict=False):
        worker.sum(worker.exchange.new_key(), nd.ones((LARGE,)), out)
    for worker in workers:
        worker.end()
    for out in outs[:2]:
        with pytest.raises(MXNetError, match="a worker is lost"):
            out.wait_to_read()


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(MXNetError):
        Neighbours.file(object())
