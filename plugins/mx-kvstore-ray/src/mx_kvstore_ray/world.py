# SPDX-License-Identifier: Apache-2.0
"""This process's part in its job: made with the first distributed store, ended with the program."""

from __future__ import annotations

import atexit
import contextlib
import math
import os
import signal
import sys
import threading
import time
from functools import partial
from typing import Any

from mx_core import dtypes, services
from mx_core.errors import MXNetError
from mx_core.forks import ForkSafeLock
from mx_core.lifecycle import interrupted
from mx_kvstore_ray import actors, settings
from mx_kvstore_ray.direct import Channel
from mx_kvstore_ray.errors import PeerTimeoutError
from mx_kvstore_ray.faults import Fault
from mx_kvstore_ray.requests import Requests
from mx_kvstore_ray.settings import Place

#: seconds that the end of a program waits for its communication thread
_JOIN = 5.0
#: seconds between two questions for a server's door
_AGAIN = 0.5
#: commands that go past Ray where the server is on the same machine, and bytes up to which first values do
_DIRECT = frozenset(("push", "push at once", "barrier", "init", "pull", "keys", "waits", "fail"))
_SMALL = 1 << 18
#: seconds that the first store waits for such ways
_WAYS = 5.0


class World:
    """The job as this worker sees it. Threads: any.

    Parameters
    ----------
    place : Place

    Raises
    ------
    MXNetError  the job cannot be joined; the message says why
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.process = os.getpid()
        self.timeout = settings.timeout()
        self.fault = Fault()
        self._stores = 0
        self._keys: list[str] = []
        #: how many keys the servers know, and by store and key how often those were pushed that were pushed since then
        self._told = 0
        self._pushed: dict[tuple[int, Any], int] = {}
        self._telling, self._counting = threading.Lock(), threading.Lock()
        self._barriers = 0
        self._closed = False
        ray = self._ray = _connected(place)
        self._handles = [self._found(server) for server in range(place.servers)]
        self._retried: tuple[type[BaseException], ...] = (*actors.retried(ray), ConnectionError)
        shares = settings.shared_memory()
        self._channels = [
            Channel(partial(self._door, server)) for server in range(place.servers if shares else 0)
        ]
        self.requests = Requests(self._send, self._retried, place.servers, self.fault, self.timeout, shares)
        atexit.register(self.close)  # before Ray's own, which cuts the connection
        self.requests.command("join", {})
        for channel in self._channels:
            channel.wait(_WAYS)

    def _found(self, server: int) -> Any:
        limit = time.monotonic() + self.timeout
        while True:
            try:
                return self._ray.get_actor(actors.name_of(server), namespace=self.place.job)
            except ValueError:
                if time.monotonic() > limit:
                    raise PeerTimeoutError(
                        f"[KVStore] server {server} did not come within {self.timeout:g} s"
                    ) from None
                time.sleep(0.1)

    def _send(self, server: int, command: str, told: dict[str, Any], data: Any) -> Any:
        """A request to a server: what becomes the answer."""
        stamp = (self.place.rank, self.place.start)
        if self._channels and command in _DIRECT and (command not in ("init", "pull") or _is_small(told)):
            future = self._channels[server].call(command, stamp, told, data)
            if future is not None:
                return future
        return self._handles[server].answer.remote(command, stamp, told, data).future()

    def _door(self, server: int) -> str | None:
        """The name of a server's door, when the server is there; None at the end of the job."""
        asked: Any = None
        while not self._closed and self.fault.error is None:
            try:
                asked = asked or self._handles[server].door.remote().future()
                return str(asked.result(_AGAIN))
            except self._retried:
                asked = None
                time.sleep(_AGAIN)
            except TimeoutError:
                continue
            except Exception:  # Ray's, of whatever kind, when its connection is closed meanwhile
                if not self._closed:
                    raise
        return None

    def check(self) -> None:
        """Raises the failure of the job; refuses a child of the process that joined it."""
        if os.getpid() != self.process:
            raise MXNetError(
                f"[KVStore] process {os.getpid()} was forked from process {self.process}, which is the worker of the "
                "job; only that one can use the store"
            )
        self.fault.check()

    def new_store(self) -> int:
        """The number of a store of this worker."""
        with self._counting:
            self._stores += 1
            return self._stores - 1

    def new_key(self, key: Any) -> None:
        """A store of this worker has initialised a key."""
        self._keys.append(repr(key))

    @property
    def keys(self) -> int:
        """How many keys this worker has initialised."""
        return len(self._keys)

    def count_push(self, store: int, key: Any, n: int) -> None:
        """A store is about to push a key for the `n`-th time."""
        with self._counting:
            self._pushed[store, key] = n

    def tell_keys(self) -> None:
        """Tells the servers which keys are new, if some are. Blocks, but waits for no other worker.

        Raises
        ------
        ProtocolError  another worker has others
        """
        if self._told == len(self._keys):
            return
        with self._telling:
            begin, end = self._told, len(self._keys)
            with self._counting:
                pushed, self._pushed = self._pushed, {}
            pushes = [(store, key, n) for (store, key), n in pushed.items()]
            told = {"begin": begin, "names": self._keys[begin:end], "pushes": pushes, "met": self._barriers}
            try:
                self.requests.command("keys", told)
            except BaseException:  # such as Ctrl-C: they are told again
                with self._counting:
                    self._pushed = pushed | self._pushed
                raise
            self._told = end

    def meet(self, called: str) -> None:
        """Blocks until all workers have called it as often.

        Raises
        ------
        PeerLostError, PeerTimeoutError  a worker is lost, or did not come in time
        ProtocolError                    another worker has other keys
        """
        self._barriers += 1
        self.requests.command(
            "barrier", {"n": self._barriers, "called": called, "keys": self.keys}, servers=(0,)
        )

    def skip_barriers(self, met: int) -> None:
        """Counts barriers that all workers have left as ones of this worker's, which was started anew."""
        self._barriers = max(self._barriers, met)

    def close(self) -> None:
        """Leaves the job: after what was pushed has been sent, or at once after a failure."""
        if os.getpid() != self.process or self._closed:
            return
        self._closed = True
        if self.fault.error is None and not interrupted() and not _raised():
            drain = getattr(services.engine(), "drain", None)
            if drain is not None:
                drain(self.timeout)
        self.requests.stop(_JOIN)
        for channel in self._channels:
            channel.close()
        with contextlib.suppress(Exception):  # whatever is broken there, the program ends
            self._ray.shutdown()


def _is_small(told: dict[str, Any]) -> bool:
    """Whether a value is, as a message; one whose size is not told may be large."""
    shape = told.get("shape")
    return shape is not None and math.prod(shape) * dtypes.numpy_dtype(told["code"]).itemsize <= _SMALL


def _connected(place: Place) -> Any:
    """The module of Ray, connected to the cluster of the job.

    Raises
    ------
    MXNetError  it cannot be reached
    """
    import ray

    if not ray.is_initialized():
        before = signal.getsignal(signal.SIGTERM)
        try:
            ray.init(address=place.address, namespace=place.job, log_to_driver=False, configure_logging=False)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise MXNetError(f"[KVStore] Ray at {place.address} cannot be reached: {error}") from error
        if threading.current_thread() is threading.main_thread() and before is not None:
            signal.signal(signal.SIGTERM, before)  # Ray's writes a stack, also where a launcher ends the job
    return ray


def _raised() -> bool:
    """Whether the program ends because of an exception that nobody caught."""
    if hasattr(sys, "ps1") or sys.flags.interactive:
        return False
    return getattr(sys, "last_value", None) is not None


_lock = ForkSafeLock()
_world: World | None = None


def join() -> World:
    """The process's world, which is made at the first call. Blocks until the servers are there.

    Raises
    ------
    NoJobError  no launcher has started this process
    MXNetError  the job has failed
    """
    global _world
    with _lock:
        if _world is None:
            _world = World(settings.place())
        _world.check()
        return _world


def close() -> None:
    """Leaves the job, if this process has joined one."""
    if _world is not None:
        _world.close()


def forget() -> None:
    """In a forked child: the job is the parent's, and what Ray would do at the end of it, too."""
    if _world is not None:
        atexit.unregister(_world.close)
