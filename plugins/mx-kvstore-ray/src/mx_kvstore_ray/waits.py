# SPDX-License-Identifier: Apache-2.0
"""What answers of a server wait for: a deadline, and who is missing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mx_kvstore_ray.errors import PeerLostError, PeerTimeoutError
from mx_kvstore_ray.values import Waiters, joined


class Waits:
    """The waits of a server. Threads: one, that of the event loop.

    Parameters
    ----------
    timeout : float
        Seconds that one may last.
    check_of : callable
        (rank) -> what raises where the job has failed, or goes on without that worker.
    ended, lost : callable
        () -> ranks that have ended in good order, and those without which the job goes on.
    """

    def __init__(
        self,
        timeout: float,
        check_of: Callable[[int], Callable[[], None]],
        ended: Callable[[], set[int]],
        lost: Callable[[], set[int]],
    ) -> None:
        self._timeout, self._check_of, self._ended, self._lost = timeout, check_of, ended, lost
        #: of those that last, in the order in which they began: the worker, what for, and those that it waits for
        self._lasting: dict[object, tuple[int, str, Callable[[], set[int]]]] = {}

    async def until(
        self, waiters: Waiters, rank: int, ready: Callable[[], bool], what: str, ranks: Callable[[], set[int]]
    ) -> None:
        """Waits for worker `rank` until `ready()`, which is asked when `waiters` are woken.

        Parameters
        ----------
        what : str
            For messages.
        ranks : callable
            () -> workers that are missing.

        Raises
        ------
        PeerLostError     the job has failed, or one that is waited for has ended or is lost
        PeerTimeoutError  it took too long
        """
        if ready():
            return
        mark = object()
        self._lasting[mark] = rank, what, ranks
        try:
            await self._last(waiters, rank, ready, what, ranks)
        finally:
            del self._lasting[mark]

    async def _last(
        self, waiters: Waiters, rank: int, ready: Callable[[], bool], what: str, ranks: Callable[[], set[int]]
    ) -> None:
        loop, check = asyncio.get_running_loop(), self._check_of(rank)
        limit = loop.time() + self._timeout
        while not ready():
            check()
            for gone, how in ((self._ended(), "ended its program"), (self._lost(), "been lost")):
                if missing := ranks() & gone:
                    has = "has" if len(missing) == 1 else "have"
                    raise PeerLostError(
                        f"[KVStore] {joined(missing)} {has} {how}, and worker {rank} waits: {what}"
                    )
            future = loop.create_future()
            waiters.append(future)
            try:
                await asyncio.wait_for(future, limit - loop.time())
            except TimeoutError:
                raise PeerTimeoutError(
                    f"[KVStore] worker {rank} waited {self._timeout:g} s for {joined(ranks()) or 'server'}: {what}; "
                    "MX_KVSTORE_TIMEOUT is the limit"
                ) from None

    def told(self) -> dict[int, str]:
        """By worker, the first of its waits that last, and who is missing."""
        found: dict[int, str] = {}
        for rank, what, ranks in self._lasting.values():
            found.setdefault(rank, f"{what}, for {joined(ranks()) or 'the server'}")
        return found
