# SPDX-License-Identifier: Apache-2.0
"""Contract tests for storage managers, through their C table."""

from __future__ import annotations

import ctypes
import random
import threading
from typing import Any

from mx_core.context import Context, cpu
from mx_core.testing import tables
from mx_core.testing.expect import check_equal, within

OUT_OF_MEMORY = 6


class Memory:
    """A storage manager's C table as Python methods; keeps the manager alive."""

    def __init__(self, manager: Any, context: Context) -> None:
        self.manager = manager
        self.table = tables.table(manager.capsule, tables.StorageTable, "mx.storage.v1")
        self.context = tables.Context(context.device_typeid, context.device_id)

    def try_alloc(self, size: int) -> tuple[int, tables.Block, str]:
        """Status, block and message of an allocation."""
        block, error = tables.Block(), tables.Error()
        status = self.table.alloc(
            self.table.self, self.context, size, b"contract", ctypes.byref(block), ctypes.byref(error)
        )
        return status, block, error.message.decode()

    def alloc(self, size: int) -> tables.Block:
        """A block; the allocation must succeed."""
        status, block, message = self.try_alloc(size)
        assert status == 0, f"alloc of {size} bytes: status {status}: {message}"
        return block

    def free(self, block: tables.Block) -> None:
        """Back to the pool."""
        self.table.free(self.table.self, ctypes.byref(block))

    def stats(self) -> tables.StorageStats:
        """Statistics of the context."""
        stats, error = tables.StorageStats(), tables.Error()
        stats.size = ctypes.sizeof(stats)
        status = self.table.stats(self.table.self, self.context, ctypes.byref(stats), ctypes.byref(error))
        assert status == 0, f"status {status}: {error.message.decode()}"
        return stats


class StorageContract:
    """Tests of a storage manager: derive, name the class `Test…`, write `make_storage`."""

    #: the context whose memory is tested, and whether the host can write to it
    context = cpu()
    host_accessible = True

    def make_storage(self) -> Any:
        """A new manager (or the process's), an object with `.capsule` and `.name`."""
        raise NotImplementedError

    def _memory(self) -> Memory:
        return Memory(self.make_storage(), self.context)

    def test_offers_a_name(self) -> None:
        manager = self.make_storage()
        assert isinstance(manager.name, str) and manager.name, f"name: expected a text, got {manager.name!r}"

    def test_blocks_are_aligned_disjoint_and_writable(self) -> None:
        memory = self._memory()
        sizes = [1, 3, 64, 65, 1000, 4096, 100_000, 3_000_001]
        blocks = [memory.alloc(size) for size in sizes]
        for size, block in zip(sizes, blocks, strict=True):
            check_equal(f"bytes of a block of {size}", block.bytes, size)
            assert block.data % 64 == 0, (
                f"a block of {size} bytes is at {block.data:#x}, expected a multiple of 64"
            )
        spans = sorted((block.data, block.data + block.bytes) for block in blocks)
        for a, b in zip(spans, spans[1:], strict=False):
            assert a[1] <= b[0], f"blocks overlap: from {a[0]:#x} to {a[1]:#x}, from {b[0]:#x} to {b[1]:#x}"
        if self.host_accessible:
            for i, block in enumerate(blocks):
                ctypes.memset(block.data, i + 1, block.bytes)
            for i, block in enumerate(blocks):
                _check_filled(block, i + 1)
        for block in blocks:
            memory.free(block)

    def test_an_empty_block_is_fine(self) -> None:
        memory = self._memory()
        block = memory.alloc(0)
        check_equal("bytes of an empty block", block.bytes, 0)
        memory.free(block)

    def test_statistics_follow_alloc_and_free(self) -> None:
        memory = self._memory()
        before = memory.stats()
        memory.table.reset_peak(memory.table.self, memory.context)
        blocks = [memory.alloc(10_000) for _ in range(5)]
        held = memory.stats()
        check_equal("bytes in use with 50000 more", held.bytes_in_use, before.bytes_in_use + 50_000)
        check_equal("allocations after 5 more", held.allocations, before.allocations + 5)
        for block in blocks:
            memory.free(block)
        after = memory.stats()
        check_equal("bytes in use when all is freed", after.bytes_in_use, before.bytes_in_use)
        _check_peak(after, before.bytes_in_use + 50_000)

    def test_a_block_says_what_it_is(self) -> None:
        memory = self._memory()
        block = memory.alloc(777)
        check_equal("bytes of a block", block.bytes, 777)
        found = (block.context.type, block.context.id)
        check_equal("type and number of its device", found, (memory.context.type, memory.context.id))
        memory.free(block)

    def test_the_peak_starts_again_at_what_is_in_use(self) -> None:
        memory = self._memory()
        kept = memory.alloc(1000)
        memory.free(memory.alloc(1 << 20))
        _check_peak(memory.stats(), memory.stats().bytes_in_use + (1 << 20))
        memory.table.reset_peak(memory.table.self, memory.context)
        after = memory.stats()
        check_equal("peak after reset_peak", after.bytes_peak, after.bytes_in_use)
        memory.free(kept)

    def test_release_all_leaves_blocks_in_use_alone(self) -> None:
        memory = self._memory()
        blocks = [memory.alloc(size) for size in (100, 70_000, 3 << 20)]
        if self.host_accessible:
            for i, block in enumerate(blocks):
                ctypes.memset(block.data, i + 1, block.bytes)
        memory.free(memory.alloc(1 << 20))
        memory.table.release_all(memory.table.self, memory.context)
        for i, block in enumerate(blocks):
            if self.host_accessible:
                _check_filled(block, i + 1)
            memory.free(block)

    def test_memory_may_have_no_tag(self) -> None:
        memory = self._memory()
        block, error = tables.Block(), tables.Error()
        table = memory.table
        status = table.alloc(table.self, memory.context, 64, None, ctypes.byref(block), ctypes.byref(error))
        assert status == 0, f"status {status}: {error.message.decode()}"
        memory.free(block)

    @within(60)
    def test_a_block_may_be_freed_by_another_thread(self) -> None:
        memory = self._memory()
        before = memory.stats().bytes_in_use
        blocks = [memory.alloc(size) for size in (64, 5000, 2 << 20) for _ in range(40)]

        def free_all() -> None:
            for block in blocks:
                memory.free(block)

        thread = threading.Thread(target=free_all)
        thread.start()
        thread.join()
        check_equal("bytes in use when all is freed", memory.stats().bytes_in_use, before)
        memory.free(memory.alloc(5000))

    def test_contexts_of_other_devices_are_refused(self) -> None:
        memory = self._memory()
        wrong = tables.Context(9999, 0)
        block, error, stats = tables.Block(), tables.Error(), tables.StorageStats()
        table = memory.table
        status = table.alloc(table.self, wrong, 64, None, ctypes.byref(block), ctypes.byref(error))
        assert status != 0 and error.message, "alloc of memory of an unknown device"
        status = table.stats(table.self, wrong, ctypes.byref(stats), ctypes.byref(error))
        assert status != 0 and error.message, "stats of an unknown device"

    def test_release_all_empties_the_pool(self) -> None:
        memory = self._memory()
        memory.free(memory.alloc(1 << 20))
        memory.table.release_all(memory.table.self, memory.context)
        check_equal("pooled bytes after release_all", memory.stats().bytes_pooled, 0)

    def test_direct_free_bypasses_the_pool(self) -> None:
        memory = self._memory()
        memory.table.release_all(memory.table.self, memory.context)
        block = memory.alloc(1 << 20)
        memory.table.direct_free(memory.table.self, ctypes.byref(block))
        stats = memory.stats()
        check_equal("pooled bytes after direct_free", stats.bytes_pooled, 0)

    def test_the_limit_is_kept_and_the_refusal_explained(self) -> None:
        memory = self._memory()
        memory.table.release_all(memory.table.self, memory.context)
        limit = memory.stats().bytes_in_use + (8 << 20)
        memory.table.set_limit(memory.table.self, memory.context, limit)
        try:
            check_equal("limit", memory.stats().bytes_limit, limit)
            status, _, message = memory.try_alloc(9 << 20)
            assert status == OUT_OF_MEMORY, f"status {status}"
            assert str(9 << 20) in message and str(limit) in message, (
                f"expected what was asked, {9 << 20}, and the limit, {limit}, in the message, got {message!r}"
            )
            memory.free(memory.alloc(1 << 20))
        finally:
            memory.table.set_limit(memory.table.self, memory.context, 0)

    def test_an_impossible_size_is_refused(self) -> None:
        memory = self._memory()
        for size in (1 << 62, (1 << 64) - 1, (1 << 64) - 64):
            status, _, message = memory.try_alloc(size)
            assert status == OUT_OF_MEMORY and message, f"{size}: status {status}"
        memory.free(memory.alloc(16))

    @within(120)
    def test_threads_get_memory_of_their_own(self) -> None:
        memory = self._memory()
        before = memory.stats().bytes_in_use
        wrong: list[str] = []

        def work(seed: int) -> None:
            source = random.Random(seed)
            held: list[tuple[tables.Block, int]] = []
            for step in range(300):
                if held and source.random() < 0.5:
                    block, mark = held.pop(source.randrange(len(held)))
                    data = ctypes.string_at(block.data, 8) if self.host_accessible else b""
                    if self.host_accessible and data != bytes([mark]) * 8:
                        wrong.append(f"thread {seed}, step {step}")
                    memory.free(block)
                else:
                    block = memory.alloc(source.choice((8, 100, 5_000, 70_000)))
                    mark = source.randrange(256)
                    if self.host_accessible:
                        ctypes.memset(block.data, mark, block.bytes)
                    held.append((block, mark))
            for block, _ in held:
                memory.free(block)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong, f"blocks were written to by others: {'; '.join(wrong[:5])}"
        check_equal("bytes in use when all is freed", memory.stats().bytes_in_use, before)


def _check_filled(block: tables.Block, value: int) -> None:
    found = ctypes.string_at(block.data, block.bytes)
    assert found == bytes([value]) * block.bytes, (
        f"a block of {block.bytes} bytes was filled with {value} and changed"
    )


def _check_peak(stats: tables.StorageStats, least: int) -> None:
    assert stats.bytes_peak >= least, f"bytes_peak: expected at least {least}, got {stats.bytes_peak}"
