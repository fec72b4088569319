# SPDX-License-Identifier: Apache-2.0
"""Messages to another process: what is under way at once, and what overtakes what."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded_peers import Handle

from mx_kvstore_mpi.messages import Encoded
from mx_kvstore_mpi.outbox import Outbox, Sending, bytes_at_once
from mx_kvstore_mpi.parts import slice_count, slices


class Wire:
    """A communicator that records what begins and what has ended; the tag of a message is its name here."""

    def __init__(self) -> None:
        self.begun: list[Any] = []
        self.ended: list[Any] = []
        self.packets: list[list[int]] = []
        self.handles: dict[Any, Handle] = {}

    def box(self, limit: int) -> Outbox:
        return Outbox(self, 1, "packet", limit)  # type: ignore[arg-type]

    def Isend(self, values: Any, to: int, tag: Any) -> Handle:
        names = values.tolist() if tag == "packet" else [tag]
        handle = Handle()
        self.packets += [names] if tag == "packet" else []
        self.begun += names
        self.handles.update(dict.fromkeys(names, handle))
        return handle

    def message(self, name: Any, size: int) -> Sending:
        encoded = Encoded([], [(np.zeros(0, np.uint8), name)])
        return Sending(size, lambda: encoded, lambda: self.ended.append(name))

    def small(self, name: int, size: int) -> Sending:
        """A message that travels in a packet, where its name is a byte."""
        return Sending(size, lambda: Encoded([bytes([name])], []), lambda: self.ended.append(name))

    def value(self, name: Any, count: int, size: int) -> Iterator[Sending]:
        return (self.message((name, place), size) for place in range(count))

    def deliver(self, count: int = 1) -> None:
        """Completes the oldest messages, as MPI does."""
        for name in [each for each in self.begun if not self.handles[each].complete][:count]:
            self.handles[name].complete = True


def test_an_urgent_value_overtakes_slices_that_have_not_begun() -> None:
    wire = Wire()
    box = wire.box(200)
    box.put(-9, wire.value("last layer", 4, 100))
    box.go()
    assert wire.begun == [("last layer", 0), ("last layer", 1)]
    box.put(-5, wire.value("middle", 2, 100))
    box.put(0, wire.value("first layer", 1, 40))
    assert not box.go()
    wire.deliver()
    assert box.go() and wire.ended == [("last layer", 0)]
    assert wire.begun[2:] == [("first layer", 0)]  # beside it there is no room for a slice
    while not box.empty:
        wire.deliver()
        box.go()
    assert wire.begun[3:] == [("middle", 0), ("middle", 1), ("last layer", 2), ("last layer", 3)]
    assert sorted(wire.ended) == sorted(wire.begun)


def test_a_message_above_the_limit_goes_alone() -> None:
    wire = Wire()
    box = wire.box(8)
    box.put(0, wire.value("a", 2, 1000))
    box.put(0, wire.value("b", 1, 0))
    box.go()
    assert wire.begun == [("a", 0)]
    wire.deliver()
    box.go()
    assert wire.begun == [("a", 0), ("a", 1)]
    wire.deliver()
    box.go()
    assert wire.begun[2:] == [("b", 0)]


def test_small_messages_that_wait_travel_together() -> None:
    wire = Wire()
    box = wire.box(1 << 20)
    box.put(-1, (wire.small(name, 4000) for name in range(9)))
    box.put(5, [wire.small(100, 4000)])
    box.put(-1, [wire.message("large", 5000), wire.small(9, 0)])
    box.go()
    assert wire.packets == [[100, 0, 1, 2], [3, 4, 5, 6], [7, 8], [9]], (
        "of 16 KB each at most, the urgent first"
    )
    assert wire.begun[-2:] == ["large", 9]
    wire.deliver(len(wire.begun))
    assert box.go() and box.empty and wire.ended == wire.begun


@given(
    limit=st.integers(1, 50),
    puts=st.lists(st.tuples(st.integers(-3, 3), st.lists(st.integers(0, 60), max_size=5)), max_size=8),
    delivered=st.lists(st.integers(0, 3), max_size=30),
)
def test_any_order_of_puts_and_deliveries(
    limit: int, puts: list[tuple[int, list[int]]], delivered: list[int]
) -> None:
    wire = Wire()
    box = wire.box(limit)
    waiting: dict[Any, tuple[int, int]] = {}  # priority and turn of what has not begun
    steps = iter(delivered)
    for turn in itertools.count():
        if turn >= len(puts) and box.empty:
            break
        if turn < len(puts):
            priority, sizes = puts[turn]
            names = [(turn, place) for place in range(len(sizes))]
            waiting.update((name, (-priority, turn)) for name in names)
            box.put(priority, (wire.message(name, size) for name, size in zip(names, sizes, strict=True)))
        wire.deliver(next(steps, 100))
        before = len(wire.begun)
        box.go()
        for name in wire.begun[before:]:
            assert waiting[name] == min(waiting.values()), "a more urgent message waits"
            del waiting[name]
        sizes_of = {(at, place): size for at, (_, all_) in enumerate(puts) for place, size in enumerate(all_)}
        under_way = [name for name in wire.begun if name not in wire.ended]
        assert len(under_way) <= 1 or sum(sizes_of[name] for name in under_way) <= limit
        assert len(under_way) <= 8
    assert not waiting
    for turn in range(len(puts)):
        assert [place for at, place in wire.begun if at == turn] == list(range(len(puts[turn][1])))


def test_two_slices_are_under_way_or_enough_for_the_network() -> None:
    assert bytes_at_once(1_000_000) == 8_000_000
    assert bytes_at_once(1) == bytes_at_once(40_000) == 1 << 20


@pytest.mark.parametrize(
    ("size", "step", "ends"), [(10, 4, [4, 8, 10]), (8, 4, [4, 8]), (0, 4, [0]), (3, 9, [3])]
)
def test_slices_cover_a_value(size: int, step: int, ends: list[int]) -> None:
    found = list(slices(size, step))
    assert [each.stop for each in found] == ends and [each.start for each in found] == [0, *ends[:-1]]
    assert slice_count(size, step) == len(found)
