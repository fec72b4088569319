# SPDX-License-Identifier: Apache-2.0
"""A fake accelerator: a device table whose streams are Python threads."""

from __future__ import annotations

import ctypes as c
import itertools
import queue
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from mx_core.testing.tables import Context, Error, Head

_P, _I = c.c_void_p, c.c_int32
_ERROR = c.POINTER(Error)


_SLOTS: list[tuple[str, Any]] = [
    ("count", c.CFUNCTYPE(_I, _P)),
    ("stream", c.CFUNCTYPE(_I, _P, _I, _I, c.POINTER(_P), _ERROR)),
    ("record", c.CFUNCTYPE(_I, _P, _P, c.POINTER(_P), _ERROR)),
    ("reached", c.CFUNCTYPE(_I, _P, _P)),
    ("wait", c.CFUNCTYPE(_I, _P, _P, _ERROR)),
    ("stream_wait", c.CFUNCTYPE(_I, _P, _P, _P, _ERROR)),
    ("release", c.CFUNCTYPE(None, _P, _P)),
    ("copy", c.CFUNCTYPE(_I, _P, _P, _P, Context, _P, Context, c.c_size_t, _ERROR)),
    ("memory", c.CFUNCTYPE(_I, _P, _I, c.POINTER(c.c_uint64), c.POINTER(c.c_uint64), _ERROR)),
]


class DeviceApi(c.Structure):
    """mx_device_api."""

    _fields_ = [("head", Head), ("self", _P), ("type", _I), ("reserved", _I), *_SLOTS]


class FakeContext(NamedTuple):
    """What engines read of a Context."""

    device_typeid: int
    device_id: int


class _Token:
    def __init__(self) -> None:
        self.reached = threading.Event()
        self.failure = ""


class _Stream:
    def __init__(self, name: str) -> None:
        self.work: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self.failure = ""  # of what ran since the last token; only the thread below touches it
        threading.Thread(target=self._main, name=name, daemon=True).start()

    def _main(self) -> None:
        while True:
            try:
                self.work.get()()
            except Exception as error:
                self.failure = str(error) or type(error).__name__

    def reach(self, token: _Token) -> None:
        token.failure, self.failure = self.failure, ""
        token.reached.set()


class FakeDevice:
    """For tests of engines: `Engine.attach_device(device.capsule)`, then operations on `context(i)`.

    Parameters
    ----------
    type : int
        The device type; those of third parties start at 64.
    count : int
        Devices of the type.

    Examples
    --------
    >>> device, done = FakeDevice(), []
    >>> device.enqueue(lambda: done.append(1))
    >>> device.synchronize()
    >>> done
    [1]
    """

    name = "fake"

    def __init__(self, type: int = 64, count: int = 2) -> None:
        self._streams = [_Stream(f"fake{type} {i // 3}/{i % 3}") for i in range(3 * count)]
        self._tokens: dict[int, _Token] = {}  # by the address that stands for it
        self._numbers = itertools.count(1)
        self._devices = count
        slots = {name: kind(getattr(self, f"_{name}")) for name, kind in _SLOTS}
        self._table = DeviceApi(head=Head(c.sizeof(DeviceApi), 1, 0), type=type, **slots)
        new = c.pythonapi.PyCapsule_New
        new.restype, new.argtypes = c.py_object, [_P, c.c_char_p, _P]
        #: The C table. The device must outlive the engines it is attached to.
        self.capsule: Any = new(c.addressof(self._table), b"mx.device.v1", None)

    def context(self, device_id: int = 0) -> FakeContext:
        """What to push with: `engine.push(fn, context=device.context(0))`."""
        return FakeContext(self._table.type, device_id)

    def enqueue(self, work: Callable[[], object], device_id: int = 0, lane: int = 0) -> None:
        """Has a stream call `work()` later; what it raises, the next token there fails with.

        Lane 0 computes, 1 copies in (`copy_to_device`), 2 copies out (`copy_from_device`).
        """
        self._streams[3 * device_id + lane].work.put(work)

    def synchronize(self) -> None:
        """Blocks until all streams have done what was enqueued."""
        for stream in self._streams:
            passed = threading.Event()
            stream.work.put(passed.set)
            passed.wait()

    @property
    def tokens(self) -> int:
        """Tokens that were recorded and not released."""
        return len(self._tokens)

    # ---- the table's functions ----------------------------------------------------------------

    def _count(self, _: int) -> int:
        return self._devices

    def _stream(self, _: int, device_id: int, lane: int, stream: Any, error: Any) -> int:
        if not (0 <= device_id < self._devices and 0 <= lane < 3):
            if error:
                text = f"expected a device below {self._devices} and a lane below 3, got {device_id}, {lane}"
                error[0].code, error[0].message = 1, text.encode()
            return 1
        stream[0] = 3 * device_id + lane + 1
        return 0

    def _record(self, _: int, stream: int, token: Any, error: Any) -> int:
        number, made = next(self._numbers), _Token()
        self._tokens[number] = made
        on = self._streams[stream - 1]
        on.work.put(lambda: on.reach(made))
        token[0] = number
        return 0

    def _reached(self, _: int, token: int) -> int:
        return int(self._tokens[token].reached.is_set())

    def _wait(self, _: int, token: int, error: Any) -> int:
        waited = self._tokens[token]
        waited.reached.wait()
        if waited.failure and error:
            error[0].code, error[0].message = 1, waited.failure.encode()[:500]
        return 1 if waited.failure else 0

    def _stream_wait(self, _: int, stream: int, token: int, error: Any) -> int:
        awaited = self._tokens[token]
        self._streams[stream - 1].work.put(awaited.reached.wait)
        return 0

    def _release(self, _: int, token: int) -> None:
        del self._tokens[token]

    def _copy(self, _: int, stream: int, to: int, to_context: Any, source: int, from_context: Any,
              size: int, error: Any) -> int:  # fmt: skip
        self._streams[stream - 1].work.put(lambda: c.memmove(to, source, size))
        return 0

    def _memory(self, _: int, device_id: int, free: Any, total: Any, error: Any) -> int:
        free[0] = total[0] = 0
        return 0
