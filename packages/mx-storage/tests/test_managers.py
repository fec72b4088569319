# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mx_core import context, services
from mx_core.errors import ArgumentError, NoKernelError, OutOfMemoryError
from mx_core.testing import StorageContract
from mx_storage import Block, StorageManager, managers

MIB = 1 << 20


class TestPooled(StorageContract):
    def make_storage(self) -> Any:
        return managers.pooled()


class TestBestFit(StorageContract):
    def make_storage(self) -> Any:
        return managers.best_fit()


class TestRound(StorageContract):
    def make_storage(self) -> Any:
        return managers.rounded()


class TestPages(StorageContract):
    def make_storage(self) -> Any:
        return managers.pages()


class TestNaive(StorageContract):
    def make_storage(self) -> Any:
        return managers.naive()


class TestPinned(StorageContract):
    context = context.cpu_pinned(1)

    def make_storage(self) -> Any:
        return managers.pooled()


def array(block: Block) -> np.ndarray[Any, Any]:
    return np.frombuffer(block, np.uint8)


def test_freed_memory_is_used_again() -> None:
    manager = managers.pooled()
    for size in (100, 5000, MIB, 3 * MIB, 40 * MIB):
        first = manager.alloc(size)
        address = first.address
        first.free()
        assert manager.alloc(size).address == address
    assert manager.stats().pool_hits == 5
    assert str(manager.stats()).startswith("Stats(bytes_in_use=") and "pool_hits=5)" in str(manager.stats())


def test_a_large_block_serves_what_loses_little() -> None:
    manager = managers.pooled()
    manager.alloc(16 * MIB).free()
    assert manager.alloc(8 * MIB).address and manager.stats().pool_hits == 0
    manager.alloc(15 * MIB)
    assert manager.stats().pool_hits == 1


def test_naive_pools_nothing() -> None:
    manager = managers.naive()
    for size in (100, 3 * MIB):
        manager.alloc(size).free()
    stats = manager.stats()
    assert (stats.bytes_pooled, stats.pool_hits, stats.allocations) == (0, 0, 2)


def test_changing_sizes_do_not_fill_the_pool_without_end() -> None:
    manager = managers.pooled()
    for size in range(10, 200, 7):  # each loses more than an eighth of its predecessor, or grows
        manager.alloc(size * MIB).free()
    stats = manager.stats()
    assert stats.bytes_pooled <= 1.25 * stats.bytes_peak + 64 * MIB


def test_pages_of_large_blocks_are_huge_page_aligned() -> None:
    manager = managers.pooled()
    assert manager.alloc(8 * MIB).address % (2 * MIB) == 0
    assert manager.alloc(2 * MIB).address % 4096 == 0


def test_contexts_are_counted_apart() -> None:
    manager = managers.pooled()
    block = manager.alloc(1000, context.cpu(1))
    assert manager.stats(context.cpu(1)).bytes_in_use == 1000
    assert manager.stats(context.cpu(0)).bytes_in_use == 0
    assert manager.stats(context.cpu_pinned(1)).bytes_in_use == 0
    block.free()
    assert manager.stats(context.cpu(1)).bytes_in_use == 0


def test_peak() -> None:
    manager = managers.pooled()
    manager.alloc(5 * MIB).free()
    kept = manager.alloc(MIB)
    assert manager.stats().bytes_peak == 5 * MIB
    manager.reset_peak()
    assert manager.stats().bytes_peak == kept.nbytes


def test_the_limit_names_the_largest_holder_and_lets_pooled_memory_go() -> None:
    manager = managers.pooled()
    manager.set_limit(10 * MIB)
    weights = manager.alloc(6 * MIB, tag="weights")
    small = manager.alloc(MIB, tag="scratch")
    assert manager.holders() == {"weights": 6 * MIB, "scratch": MIB}
    with pytest.raises(OutOfMemoryError) as caught:
        manager.alloc(4 * MIB, tag="gradient")
    text = str(caught.value)
    assert f"{4 * MIB} bytes for gradient" in text
    assert f"{7 * MIB} in use" in text and f"limit {10 * MIB}" in text
    assert f"weights ({6 * MIB})" in text
    weights.free()
    assert manager.stats().bytes_pooled == 6 * MIB
    manager.alloc(9 * MIB)  # fits once the pooled 6 MiB are given back
    stats = manager.stats()
    assert stats.bytes_in_use + stats.bytes_pooled <= 10 * MIB + small.nbytes


@pytest.mark.parametrize("limit", [0, 1])
def test_an_empty_block_needs_no_memory(limit: int) -> None:
    manager = managers.pooled()
    manager.set_limit(limit)
    block = manager.alloc(0)
    assert block.nbytes == 0 and array(block).size == 0 and manager.stats().allocations == 1


def test_contexts_without_host_memory_are_refused() -> None:
    manager = managers.pooled()
    with pytest.raises(NoKernelError, match="cpu_shared"):
        manager.alloc(1, context.cpu_shared())
    with pytest.raises(ArgumentError, match="device type 2"):
        manager.alloc(1, context.gpu())
    with pytest.raises(ArgumentError, match=r"cpu\(64\).*0 to 63"):
        manager.stats(context.cpu(64))


def test_memory_cannot_be_freed_under_a_view() -> None:
    block = managers.pooled().alloc(100)
    view = array(block)
    with pytest.raises(ArgumentError, match="1 buffers"):
        block.free()
    del view
    block.free()
    block.free()
    assert block.freed
    with pytest.raises(BufferError, match="freed"):
        memoryview(block)


def test_a_block_outlives_its_manager() -> None:
    manager = managers.pooled()
    view = array(manager.alloc(3 * MIB))
    del manager
    view[:] = 7
    assert int(view[-1]) == 7


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from([managers.pooled, managers.best_fit, managers.rounded, managers.naive]),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4 * MIB)), max_size=60),
)
def test_random_programs_never_share_memory(
    make: Callable[[], StorageManager], program: list[tuple[int, int]]
) -> None:
    manager = make()
    live: list[tuple[Block, int]] = []
    for step, (action, number) in enumerate(program):
        if action < 2 or not live:
            block = manager.alloc(number)
            data = array(block)
            data[:1], data[-1:] = step % 256, step % 256
            live.append((block, step % 256))
        else:
            block, mark = live.pop(number % len(live))
            data = array(block)
            assert (data[:1] == mark).all() and (data[-1:] == mark).all()
            del data
            block.free(direct=number % 3 == 0)
    assert manager.stats().bytes_in_use == sum(block.nbytes for block, _ in live)


def test_a_thread_gives_its_cache_back() -> None:
    manager = managers.pooled()

    def work() -> None:
        for block in [manager.alloc(1000) for _ in range(20)]:
            block.free()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)
    # the thread's C++ part may end a moment after its Python part
    deadline = time.monotonic() + 10
    hits = 0
    while hits < 20 and time.monotonic() < deadline:
        before = manager.stats().pool_hits
        blocks = [manager.alloc(1000) for _ in range(20)]
        hits = manager.stats().pool_hits - before
        for block in blocks:
            block.free(direct=hits == 0)
    assert hits == 20
    manager.release_all()
    assert manager.stats().bytes_pooled == 0


def test_release_reaches_the_caches_of_other_threads() -> None:
    manager = managers.pooled()
    filled, release = threading.Event(), threading.Event()

    def work() -> None:
        manager.alloc(1000).free()
        filled.set()
        release.wait(10)

    thread = threading.Thread(target=work)
    thread.start()
    assert filled.wait(10)
    assert manager.stats().bytes_pooled > 0
    manager.release_all()
    assert manager.stats().bytes_pooled == 0
    release.set()
    thread.join(10)


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_can_allocate_while_others_did() -> None:
    manager = managers.pooled()
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            manager.alloc(1000).free()
            manager.alloc(2 * MIB).free()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                for size in (1000, 2 * MIB):
                    manager.alloc(size).free()
                manager.release_all()
                os._exit(0 if manager.stats().bytes_pooled == 0 else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join(10)


@pytest.mark.long
def test_the_service_is_the_pooled_manager() -> None:
    assert isinstance(services.storage("cpu"), StorageManager)
    code = "from mx_core import services; print(services.storage('cpu').name)"
    ours, theirs = "MX_CPU_MEM_POOL_TYPE", "MXNET_CPU_MEM_POOL_TYPE"
    for variables, name in (
        ({}, "Pooled"),
        ({ours: "naive", theirs: "Round"}, "Naive"),
        ({ours: "BestFit"}, "BestFit"),
        ({theirs: "naive"}, "Pages"),
        ({theirs: "Round"}, "Round"),
    ):
        environment = {k: v for k, v in os.environ.items() if k not in (ours, theirs)} | variables
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60
        )
        assert done.stdout.strip() == name, done.stderr


def test_an_unknown_pool_type_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ArgumentError, match="best_fit.*'buddy'"):
        StorageManager("x", pool="buddy")
    from mx_storage.choice import chosen

    monkeypatch.setenv("MX_CPU_MEM_POOL_TYPE", "Buddy")
    with pytest.raises(ArgumentError, match="MX_CPU_MEM_POOL_TYPE.*Buddy"):
        chosen()


@pytest.mark.long
@pytest.mark.parametrize(
    ("variables", "said"),
    [
        (
            {"MX_CPU_MEM_POOL_TYPE": "q"},
            "[MX_CPU_MEM_POOL_TYPE] expected one of Pooled, Round, Pages, BestFit",
        ),
        (
            {"MX_CPU_MEM_POOL_TYPE": "Pages", "MXNET_CPU_MEM_POOL_PAGE_SIZE": "1000"},
            "[MXNET_CPU_MEM_POOL_PAGE_SIZE",
        ),
        (
            {"MX_CPU_MEM_POOL_TYPE": "Pages", "MXNET_CPU_MEM_POOL_PAGE_SIZE": "9" * 5000},
            "[MXNET_CPU_MEM_POOL_PAGE_SIZE] expected a whole number up to 2147483647, got '999",
        ),
        (
            {"MX_CPU_MEM_POOL_TYPE": "Round", "MXNET_CPU_MEM_POOL_ROUND_LINEAR_CUTOFF": "4294967320"},
            "[MXNET_CPU_MEM_POOL_ROUND_LINEAR_CUTOFF] expected a whole number up to",
        ),
    ],
)
def test_a_wrong_variable_gives_no_other_pool(variables: dict[str, str], said: str) -> None:
    code = "from mx_core import services; services.storage('cpu')"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=dict(os.environ) | variables, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert f"SettingError: {said}" in done.stderr.splitlines()[-1]


def test_the_environment_gives_the_sizes_of_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXNET_CPU_MEM_POOL_PAGE_SIZE", "1024")
    monkeypatch.setenv("MXNET_CPU_MEM_POOL_ROUND_LINEAR_CUTOFF", "20")
    manager = managers.rounded()
    for size, pooled in ((1, 1024), (3 * MIB - 5, 1024 + 3 * MIB)):
        manager.alloc(size).free()
        assert manager.stats().bytes_pooled == pooled
    monkeypatch.setenv("MXNET_CPU_MEM_POOL_PAGE_SIZE", "1000")
    with pytest.raises(ArgumentError, match="page_size: expected a power of two.*got 1000"):
        managers.pages()
    monkeypatch.setenv("MXNET_CPU_MEM_POOL_PAGE_SIZE", "4k")
    with pytest.raises(ArgumentError, match="MXNET_CPU_MEM_POOL_PAGE_SIZE.*'4k'"):
        managers.pages()
    for wrong in ({"linear_cutoff": 35}, {"large_size": 1024}):
        with pytest.raises(ArgumentError, match=next(iter(wrong))):
            StorageManager("x", pool="round", **wrong)


def test_allocations_and_releases_are_told_while_somebody_listens():
    manager = StorageManager("test")
    manager.alloc(10)
    assert manager.events() == []
    manager.listen(3)
    block = manager.alloc(1000, tag="weights")
    kept = manager.alloc(50)
    block.free()
    kept.free()
    found = manager.events()
    assert [event[1:6] for event in found] == [
        (1, 0, 1000, 1000, 64),
        (1, 0, 50, 1050, 0),
        (1, 0, -1000, 50, 1024),
    ]
    assert [event[6] for event in found] == ["weights", None, None]
    assert found[0][0] <= found[1][0] <= found[2][0] <= time.monotonic_ns()
    assert manager.dropped == 1
    manager.listen(0)
    manager.alloc(10)
    assert len(manager.events()) == 3
    manager.forget()
    assert manager.events() == [] and manager.dropped == 0
