# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from mx_core import context, philox, services
from mx_core.testing import RandomContract
from mx_storage import Random


class TestRandom(RandomContract):
    def make_random(self) -> Any:
        return Random("test")


def test_reservations_follow_each_other() -> None:
    random = Random("test")
    key, first = random.reserve(5)
    assert random.reserve(1) == (key, first + 5)
    assert random.reserve(0) == random.reserve(2)


def test_a_seed_of_one_context_is_the_same_stream_everywhere() -> None:
    random = Random("test")
    random.seed(42, context.cpu(0))
    random.seed(42, context.gpu(1))
    assert random.reserve(1, context.cpu(0)) == random.reserve(1, context.gpu(1))


def test_a_seed_of_all_gives_every_context_its_own() -> None:
    random = Random("test")
    random.seed(42)
    contexts = [context.cpu(0), context.cpu(1), context.gpu(0)]
    keys = [random.reserve(3, ctx) for ctx in contexts]
    assert len(set(keys)) == 3
    random.seed(42)
    assert [random.reserve(3, ctx) for ctx in reversed(contexts)] == keys[::-1]
    random.seed(43)
    assert random.reserve(3)[0] != keys[0][0]


def test_threads_never_share_a_counter() -> None:
    random = Random("test")
    taken: list[int] = []

    def work() -> None:
        taken.extend(random.reserve(3)[1] for _ in range(500))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(taken) == list(range(0, 6000, 3))


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_numbers_do_not_depend_on_how_many_threads_make_them(threads: int) -> None:
    random = Random("test")
    random.seed(11, context.cpu(0))
    key, first = random.reserve(1000)
    expected = philox.words(key, first, 1000)
    made = np.zeros((1000, 4), np.uint32)

    def work(part: int) -> None:
        # in turns of ten counters, so that every thread works all over the array
        for begin in range(part * 10, 1000, threads * 10):
            made[begin : begin + 10] = philox.words(key, first + begin, 10)

    workers = [threading.Thread(target=work, args=(part,)) for part in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(10)
    assert (made == expected).all() and len(np.unique(made)) > 3990


def test_one_seed_reaches_every_device() -> None:
    cpu, gpu = services.random("cpu"), services.random("gpu")
    assert isinstance(cpu, Random)
    cpu.seed(7)
    first = gpu.reserve(1, context.gpu(0))
    cpu.seed(7)
    assert gpu.reserve(1, context.gpu(0)) == first
