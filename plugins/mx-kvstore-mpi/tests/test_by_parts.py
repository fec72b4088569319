# SPDX-License-Identifier: Apache-2.0
"""Sums by parts, whatever the order in which messages come: the bits of a sum in the order of ranks."""

from __future__ import annotations

import random
from collections import defaultdict, deque
from typing import Any

import numpy as np
import pytest

from mx_kvstore_mpi import by_parts
from mx_kvstore_mpi.by_parts import ByParts, pieces, room_for


class Wire:
    """Messages between workers, of which each test completes some."""

    def __init__(self) -> None:
        self.sent: dict[Any, deque[Any]] = defaultdict(deque)
        self.expected: dict[Any, deque[Any]] = defaultdict(deque)

    def deliver(self) -> bool:
        """Completes one message that is sent and expected; False if there is none."""
        ready = [way for way in self.sent if self.sent[way] and self.expected[way]]
        if not ready:
            return False
        way = random.choice(ready)
        values, sending = self.sent[way].popleft()
        room, receiving = self.expected[way].popleft()
        room[:] = values
        sending.complete = receiving.complete = True
        return True


class Pending:
    """A request."""

    complete = False

    def Test(self) -> bool:
        return self.complete


class Comm:
    """A worker's end of the wire."""

    def __init__(self, wire: Wire, rank: int) -> None:
        self._wire, self._rank = wire, rank

    def Get_rank(self) -> int:
        return self._rank

    def Isend(self, values: Any, to: int, tag: int) -> Pending:
        pending = Pending()
        self._wire.sent[self._rank, to, tag].append((values, pending))
        return pending

    def Irecv(self, room: Any, source: int, tag: int) -> Pending:
        pending = Pending()
        self._wire.expected[source, self._rank, tag].append((room, pending))
        return pending


@pytest.mark.parametrize("seed", range(30))
def test_any_order_of_messages(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_parts, "PIECE", 64)
    random.seed(seed)
    workers, sizes = random.randint(2, 5), [random.randint(1, 300) for _ in range(random.randint(1, 4))]
    kinds = [random.choice([np.float32, np.float64, np.int8]) for _ in sizes]
    sends = [
        [(50 * np.random.default_rng((seed, rank, size)).standard_normal(size)).astype(kind)
         for size, kind in zip(sizes, kinds, strict=True)]
        for rank in range(workers)
    ]  # fmt: skip
    wire, sums, receives, ended = Wire(), [], [], [[] for _ in range(workers)]  # type: ignore[var-annotated]
    for rank, mine in enumerate(sends):
        arrays = [(send, np.full(send.size, 7, send.dtype)) for send in mine]
        size = room_for(arrays, rank, workers)
        rooms = {place: np.empty(size, np.uint8) for place in range(workers) if place != rank}
        receives.append([receive for _, receive in arrays])
        sums.append(ByParts(Comm(wire, rank), arrays, rooms, ended[rank].append))
    while not all([each.Test() for each in random.sample(sums, workers)]):
        wire.deliver()
    for place in range(len(sizes)):
        expected = sends[0][place] + sends[1][place]
        for send in sends[2:]:
            expected += send[place]
        assert all(receive[place].tobytes() == expected.tobytes() for receive in receives)
    assert all(each == list(range(len(sizes))) for each in ended)
    assert not any(wire.sent.values()) and not any(wire.expected.values())


def test_pieces_cover_a_part() -> None:
    step = by_parts.PIECE // 8
    assert pieces(slice(5, 5), 8) == []
    assert pieces(slice(5, 5 + step + 1), 8) == [slice(5, 5 + step), slice(5 + step, 6 + step)]
    assert pieces(slice(5, 7), 8, 5) == [slice(0, 2)]
