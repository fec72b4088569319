# SPDX-License-Identifier: Apache-2.0
"""Contract tests for managers of shared memory, in addition to `StorageContract`."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from mx_core.context import cpu_shared
from mx_core.testing import tables
from mx_core.testing.expect import check_equal
from mx_core.testing.storage import Memory


class SharedStorageContract:
    """Tests of the table `mx.shared.v1`: derive, name the class `Test…`, write `make_storage`."""

    def make_storage(self) -> Any:
        """A new manager (or the process's), an object with `.capsule`, `.shared_capsule` and `.name`."""
        raise NotImplementedError

    def _open(self) -> tuple[Memory, Any]:
        manager = self.make_storage()
        shared = tables.table(manager.shared_capsule, tables.SharedTable, "mx.shared.v1")
        return Memory(manager, cpu_shared()), shared

    def _segment(self, shared: Any, address: int) -> tables.Segment:
        segment, error = tables.Segment(), tables.Error()
        segment.size = ctypes.sizeof(segment)
        status = shared.segment(shared.self, address, ctypes.byref(segment), ctypes.byref(error))
        assert status == 0, f"status {status}: {error.message.decode()}"
        return segment

    def _attach(self, shared: Any, fd: int, size: int) -> tuple[int, tables.Block, str]:
        block, error = tables.Block(), tables.Error()
        status = shared.attach(shared.self, fd, size, b"contract", ctypes.byref(block), ctypes.byref(error))
        return status, block, error.message.decode()

    def test_what_is_attached_is_the_same_memory(self) -> None:
        memory, shared = self._open()
        block = memory.alloc(5000)
        ctypes.memset(block.data, 7, 5000)
        segment = self._segment(shared, block.data)
        assert segment.offset + 5000 <= segment.bytes, (
            f"5000 bytes at {segment.offset} do not lie in a segment of {segment.bytes}"
        )
        status, other, message = self._attach(shared, segment.fd, segment.bytes)
        assert status == 0, f"status {status}: {message}"
        where = other.data + segment.offset
        _check_bytes(where, 7, 5000)
        ctypes.memset(where, 8, 5000)
        _check_bytes(block.data, 8, 5000)
        check_equal("inode of what is attached", self._segment(shared, other.data).inode, segment.inode)
        memory.free(other)
        memory.free(block)

    def test_it_lives_on_when_its_maker_frees_it(self) -> None:
        memory, shared = self._open()
        block = memory.alloc(100)
        ctypes.memset(block.data, 9, 100)
        segment = self._segment(shared, block.data)
        status, other, message = self._attach(shared, segment.fd, segment.bytes)
        assert status == 0, f"status {status}: {message}"
        memory.free(block)
        again = memory.alloc(100)
        ctypes.memset(again.data, 1, 100)
        _check_bytes(other.data + segment.offset, 9, 100)
        memory.free(again)
        memory.free(other)

    def test_a_descriptor_stays_its_owners(self) -> None:
        memory, shared = self._open()
        block = memory.alloc(100)
        segment = self._segment(shared, block.data)
        mine = os.dup(segment.fd)
        status, other, message = self._attach(shared, mine, segment.bytes)
        assert status == 0, f"status {status}: {message}"
        os.close(mine)  # an OSError when the manager closed it
        memory.free(other)
        memory.free(block)

    def test_what_is_attached_counts_until_it_is_freed(self) -> None:
        memory, shared = self._open()
        block = memory.alloc(4096)
        before = memory.stats().bytes_in_use
        segment = self._segment(shared, block.data)
        status, other, message = self._attach(shared, segment.fd, segment.bytes)
        assert status == 0, f"status {status}: {message}"
        check_equal("bytes in use while attached", memory.stats().bytes_in_use, before + segment.bytes)
        memory.free(other)
        check_equal("bytes in use after it is freed", memory.stats().bytes_in_use, before)
        memory.free(block)

    def test_what_is_no_segment_is_refused(self) -> None:
        memory, shared = self._open()
        read, write = os.pipe()
        try:
            for fd in (-1, read, 1 << 20):
                status, _, message = self._attach(shared, fd, 64)
                assert status != 0 and message, f"descriptor {fd}"
        finally:
            os.close(read)
            os.close(write)
        block = memory.alloc(64)
        segment = self._segment(shared, block.data)
        status, _, message = self._attach(shared, segment.fd, segment.bytes + (1 << 20))
        assert status != 0 and message, "more than the segment has"
        memory.free(block)
        error = tables.Error()
        status = shared.segment(shared.self, 0x1000, ctypes.byref(segment), ctypes.byref(error))
        assert status != 0 and error.message, "an address outside"


def _check_bytes(address: int, value: int, count: int) -> None:
    found = ctypes.string_at(address, count)
    assert found == bytes([value]) * count, (
        f"{count} bytes: expected {value} in all of them, got {found[:16]!r}…"
    )
