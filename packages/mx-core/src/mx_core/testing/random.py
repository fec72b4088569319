# SPDX-License-Identifier: Apache-2.0
"""Contract tests for random streams, through their C table."""

from __future__ import annotations

import ctypes
from typing import Any

from mx_core.context import Context, cpu
from mx_core.testing import tables
from mx_core.testing.expect import check_equal


class RandomContract:
    """Tests of a random resource: derive, name the class `Test…`, write `make_random`."""

    context = cpu()

    def make_random(self) -> Any:
        """A new resource (or the process's), an object with `.capsule` and `.name`."""
        raise NotImplementedError

    def _table(self) -> Any:
        self._keep = self.make_random()
        return tables.table(self._keep.capsule, tables.ResourceTable, "mx.resource.v1")

    def _reserve(self, table: Any, blocks: int, context: Context | None = None) -> tuple[int, int]:
        where = context or self.context
        key, offset = ctypes.c_uint64(), ctypes.c_uint64()
        table.reserve_random(
            table.self,
            tables.Context(where.device_typeid, where.device_id),
            blocks,
            ctypes.byref(key),
            ctypes.byref(offset),
        )
        return key.value, offset.value

    def _seed(self, table: Any, seed: int, context: Context | None = None) -> None:
        where = context or self.context
        table.seed(table.self, tables.Context(where.device_typeid, where.device_id), seed)

    def test_reservations_follow_each_other_without_overlap(self) -> None:
        table = self._table()
        self._seed(table, 1)
        key, end = self._reserve(table, 10)
        end += 10
        for blocks in (1, 1000, 7):
            again, offset = self._reserve(table, blocks)
            check_equal("key of the same seed", again, key)
            assert offset >= end, f"{blocks} counters from {offset} overlap with those before {end}"
            end = offset + blocks

    def test_the_same_seed_gives_the_same_stream(self) -> None:
        table = self._table()
        streams = []
        for _ in range(2):
            self._seed(table, 42)
            streams.append([self._reserve(table, n) for n in (3, 5, 8)])
        check_equal("reservations after the same seed", streams[1], streams[0])
        self._seed(table, 43)
        assert self._reserve(table, 3)[0] != streams[0][0][0], "seeds 42 and 43 give one key"

    def test_contexts_have_streams_of_their_own(self) -> None:
        table = self._table()
        table.seed_all(table.self, 7)
        other = Context(self.context.device_type, self.context.device_id + 1)
        mine, theirs = self._reserve(table, 4), self._reserve(table, 4, other)
        assert mine[0] != theirs[0], f"{self.context} and {other} have one key after seed_all(7)"
        table.seed_all(table.self, 7)
        check_equal(f"reservation on {other} after the same seed_all", self._reserve(table, 4, other), theirs)
        check_equal(f"reservation on {self.context} after the same seed_all", self._reserve(table, 4), mine)
