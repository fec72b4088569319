# SPDX-License-Identifier: Apache-2.0
"""Sums over workers of several hosts: first in each host, then between hosts.

A link between hosts is slower than memory, and all workers of a host share it. So they add what they have through
memory; one of them, the leader, exchanges the sum with the leaders of the other hosts, and gives what comes of that to
the workers of its own. Of eight workers of a host one uses the link, for an eighth of the bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from mx_core import dtypes
from mx_core.errors import MXNetError
from mx_kvstore.arrays import Values
from mx_kvstore.compression import Compression
from mx_kvstore.exchange import Window
from mx_kvstore_mpi.beside import Beside
from mx_kvstore_mpi.faults import Fault
from mx_kvstore_mpi.links import LinkedSums, Network, linked
from mx_kvstore_mpi.reduction import BUCKET, Summation, bytes_of
from mx_kvstore_mpi.shared import agreed, shared_window

#: the leader's number on its host
_LEADER = 0


class Hierarchy:
    """Sums one-dimensional arrays over workers, as `Summation` does. Threads: one.

    In each host an element is added in the order of ranks; these sums are added in the order of the hosts' first ranks.
    16-bit types are added in float32, and rounded in each host and at the end. Codes of gradients are not added on the
    way: each worker gets those of all, and expands them in the order of ranks.

    Parameters
    ----------
    hosts : sequence of sequences of int
        The ranks of each host's workers; the first is its leader.
    rank : int
        This worker's.
    window : Window, optional
        Of this host's workers; None if it has only this one.
    far : Summation or LinkedSums, optional
        Of the leaders, on a leader.
    fault : Fault
        Why the window was stopped, if it was.
    """

    def __init__(
        self,
        hosts: Sequence[Sequence[int]],
        rank: int,
        window: Window | None,
        far: Summation | LinkedSums | None,
        fault: Fault,
    ) -> None:
        self.window = window
        self._counts = [len(host) for host in hosts]
        self._order = [each for host in hosts for each in host]
        self._here = next(host for host in hosts if rank in host)
        self._rank = rank
        self._far = far
        self._fault = fault
        self._rooms: dict[np.dtype[Any], tuple[Values, Values]] = {}
        #: MPI is called by one thread; connections need none
        self._beside = Beside("mx kvstore: leader") if isinstance(far, LinkedSums) else None

    def stop(self) -> None:
        """Ends what is under way, in this host and to others, but for MPI. Threads: any."""
        if self.window is not None:
            self.window.stop()
        if isinstance(self._far, LinkedSums):
            self._far.links.stop()

    def together(self, sends: Sequence[Values], receives: Sequence[Values]) -> None:
        """Sums several small arrays of one type; blocks until all workers do."""
        ends = np.cumsum([send.size for send in sends]).tolist()
        parts = [slice(end - send.size, end) for send, end in zip(sends, ends, strict=True)]
        near, total = self._room(sends[0].dtype, ends[-1])
        self._sum(sends, [near[part] for part in parts])
        if self._far is not None:
            self._far.packed(near, total)
        self._give([total], [_LEADER])
        for receive, part in zip(receives, parts, strict=True):
            receive[:] = total[part]

    def alone(self, send: Values, receive: Values) -> None:
        """Sums one array; blocks until all workers do."""
        self.several([(send, receive)], lambda place: None)

    def several(self, arrays: Sequence[tuple[Values, Values]], done: Callable[[int], object]) -> None:
        """Sums large arrays, each by itself; as that of `Summation`.

        They pass in pieces, so that little memory is needed, and much of it is in the caches. While leaders exchange a
        piece over connections, the workers of a host add the next one, and get the one before.
        """
        before: Callable[[], None] | None = None
        for turn, (send, receive, place) in enumerate(_pieces(arrays)):
            near = self._room(send.dtype, send.size)[turn % 2]
            self._sum([send], [near])
            exchanged = self._begin(near, receive)
            if before is not None:
                before()

            def complete(
                exchanged: Callable[[], None] = exchanged,
                receive: Values = receive,
                place: int | None = place,
            ) -> None:
                exchanged()
                self._give([receive], [_LEADER])
                if place is not None:
                    done(place)

            before = complete
        if before is not None:
            before()

    def _begin(self, near: Values, receive: Values) -> Callable[[], None]:
        """Has a leader exchange the sum of its host; what it returns waits for the end."""
        far = self._far
        if far is None:
            return lambda: None
        if self._beside is not None:
            return self._beside.begin(lambda: far.alone(near, receive))
        far.alone(near, receive)
        return lambda: None

    def compressed(self, send: Values, receive: Values, how: Compression, residual: Values) -> None:
        """Sums what codes of one array stand for, in the order of ranks; blocks until all workers do."""
        codes = np.empty((len(self._order), how.words(send.size)), np.uint32)  # by hosts
        begin = self._order.index(self._here[_LEADER])
        end = begin + len(self._here)
        how.compress(send, residual, codes[self._order.index(self._rank)])
        self._give(list(codes[begin:end]), range(len(self._here)))
        if self._far is not None:
            self._far.gathered(codes, self._counts)
        self._give([codes[:begin], codes[end:]], [_LEADER, _LEADER])
        for rank in range(len(self._order)):
            how.expand(codes[self._order.index(rank)], receive, add=rank > 0)

    def _room(self, dtype: np.dtype[Any], count: int) -> tuple[Values, Values]:
        """Memory for the sum of this host and that of all, again that of the last call where it is enough."""
        kept = self._rooms.get(dtype)
        if kept is None or kept[0].size < count:
            least = max(count, BUCKET // dtype.itemsize)
            kept = self._rooms[dtype] = np.empty(least, dtype), np.empty(least, dtype)
        return kept[0][:count], kept[1][:count]

    def _sum(self, sends: Sequence[Values], near: Sequence[Values]) -> None:
        """Has the leader of each host have the sums of its workers."""
        if self.window is None:
            for send, each in zip(sends, near, strict=True):
                np.copyto(each, send)
            return
        code = dtypes.code(sends[0].dtype)
        receives = None if self._far is None else list(map(bytes_of, near))
        self._did(self.window.sum(code, list(map(bytes_of, sends)), receives))

    def _give(self, arrays: Sequence[Values], places: Sequence[int]) -> None:
        """Has all workers of a host have what the worker of a place on it has in each array."""
        if self.window is not None:
            self._did(self.window.give(list(places), list(map(bytes_of, arrays))))

    def _did(self, complete: bool) -> None:
        if not complete:  # the job has failed
            self._fault.check()
            raise MXNetError("[KVStore] the memory that workers of this host share was stopped")


def _pieces(arrays: Sequence[tuple[Values, Values]]) -> Iterator[tuple[Values, Values, int | None]]:
    """Of what is sent and received; with the last of an array its place."""
    for place, (send, receive) in enumerate(arrays):
        step = BUCKET // send.itemsize
        for begin in range(0, max(1, send.size), step):
            part = slice(begin, begin + step)
            yield send[part], receive[part], place if begin + step >= send.size else None


def hierarchy(
    comm: Any, wait: Callable[[Any], None], fault: Fault, network: Network | None
) -> Hierarchy | None:
    """Sums by hosts; None if there is only one, or each has one worker, or they share no memory. All workers call it.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        Of the workers.
    wait : callable
        (request of MPI) -> None; returns when it is complete.
    fault : Fault
        Ends what is done in the hosts, when the window is stopped.
    network : Network, optional
        How leaders reach each other without MPI.
    """
    from mpi4py import MPI

    rank, workers = comm.Get_rank(), comm.Get_size()
    if workers < 3:  # then no host has two and another one
        return None
    near = comm.Split_type(MPI.COMM_TYPE_SHARED, rank)
    first, firsts = np.array([rank], np.int64), np.empty(workers, np.int64)
    wait(near.Ibcast(first, _LEADER))
    wait(comm.Iallgather(first, firsts))
    leaders = sorted(set(firsts.tolist()))
    if len(leaders) in (1, workers):
        return None
    window = shared_window(near, wait, near.Get_size() > 1)
    if not agreed(comm, wait, window is not None or near.Get_size() == 1):
        return None
    far = comm.Split(0 if rank in leaders else MPI.UNDEFINED, rank)
    hosts = [[each for each in range(workers) if firsts[each] == leader] for leader in leaders]
    return Hierarchy(
        hosts, rank, window, _sums(far, wait, fault, network) if rank in leaders else None, fault
    )


def _sums(
    comm: Any, wait: Callable[[Any], None], fault: Fault, network: Network | None
) -> Summation | LinkedSums:
    links = linked(comm, wait, network)
    return Summation(comm, wait) if links is None else LinkedSums(links, fault.check)
