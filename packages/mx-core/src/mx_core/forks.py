# SPDX-License-Identifier: Apache-2.0
"""Forks while other threads use something for the first time.

A child has only the thread that forked. A lock, or an import, that belonged to another one would
stay taken there for ever. So a fork waits until no other thread loads, imports or makes what
all threads use from then on (`first_use`), and the locks of objects are new in the child
(`ForkSafeLock`).

Ctrl-C raises between any two steps of Python code. So `with` gets the methods of `threading.RLock`, which are native:
between taking a lock and being in the block, and between leaving the block and giving the lock back, no Python runs.
In functions that Python calls at a fork it would be lost. Native code calls those, again if they were interrupted, and
the program raises the error after the fork.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import FrameType
from typing import Any

from mx_core import _native
from mx_core.errors import PluginError
from mx_core.weak import WeakGroup

_locks: WeakGroup[ForkSafeLock] = WeakGroup()
#: what was raised at a fork, for the program to raise when the fork is done
passed: list[BaseException] = []


class ForkSafeLock:
    """A re-entrant lock that a child does not find taken by a thread it does not have.

    What the lock guards must be sound between any two steps of its holder. Threads: any.
    """

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _locks.add(self)

    def acquire(self, timeout: float = -1.0) -> bool:
        """Takes the lock; False when `timeout` seconds, unless negative, were not enough. Blocks."""
        return self._lock.acquire(timeout=timeout)

    def release(self) -> None:
        """Gives it back."""
        self._lock.release()

    @property
    def __enter__(self) -> Callable[[], object]:
        return self._lock.__enter__

    @property
    def __exit__(self) -> Callable[..., None]:  # noqa: PLE0302  # a property: gives what takes them
        return self._lock.__exit__

    def _after_fork_in_child(self) -> None:
        if not self._lock._is_owned():  # type: ignore[attr-defined]  # as threading.Condition asks
            self._lock = threading.RLock()


class FirstUseLock(ForkSafeLock):
    """A lock under which one thread makes what all use from then on.

    The holder may run imports, and with them code that starts a thread, which uses mx, and waits for
    it. Neither would ever continue, so a thread that waits for the lock checks what its holder waits for.
    """

    __slots__ = ("_began", "_holder")

    #: seconds between two looks at the holder
    LOOK = 0.2
    #: looks at a holder that does not move before it counts as waiting for a thread it has started
    PATIENCE = 25

    def __init__(self) -> None:
        super().__init__()
        self._holder: int | None = None  # or who was it last
        self._began: frozenset[int | None] = frozenset()

    @property
    def __enter__(self) -> Callable[[], object]:
        return self._lock.__enter__ if self.held() else self._enter_patiently

    def _enter_patiently(self) -> None:
        try:
            self._wait()
            self._holder = threading.get_ident()
            self._began = frozenset(thread.ident for thread in threading.enumerate())
        except BaseException:
            if self.held():  # Ctrl-C, after the lock was taken
                self.release()
            raise

    def _wait(self) -> None:
        still, seen = 0, None
        while not self.acquire(timeout=self.LOOK):
            frame = sys._current_frames().get(self._holder or 0)
            now = frame and (id(frame), frame.f_lasti)
            still = still + 1 if now == seen else 0
            seen = now
            imported = _imported_here(self._holder)
            if frame is not None and imported:
                raise PluginError(
                    f"this thread uses mx while it imports {imported!r}, for which another one waits that loads mx: "
                    f"neither could continue; use mx once before threads start"
                )
            if frame is not None and self._waits_for_me(frame, still):
                raise PluginError(
                    f"this thread uses mx for the first time while another one loads it and waits for this "
                    f"thread, at {_place(frame)}: neither could continue; start such threads after the import"
                )

    def held(self) -> bool:
        """Whether the calling thread holds it."""
        return bool(self._lock._is_owned())  # type: ignore[attr-defined]  # as threading.Condition asks

    def _waits_for_me(self, frame: FrameType, still: int) -> bool:
        me = threading.current_thread()
        at: FrameType | None = frame
        while at is not None:
            if at.f_code is threading.Thread.join.__code__ and at.f_locals.get("self") is me:
                return True
            if at.f_code is threading.Thread.start.__code__:
                return False  # until a thread runs, which it does before it can wait for this lock
            at = at.f_back
        # It waits for something else, such as a queue or a future, and this thread began meanwhile.
        return still >= self.PATIENCE and _is_waiting(frame) and me.ident not in self._began


def _imported_here(other: int | None) -> str:
    """The module that the calling thread imports and another one waits for; empty where there is none."""
    blocking: Any = getattr(sys.modules.get("_frozen_importlib"), "_blocking_on", {})
    waited = blocking.get(other)
    me = threading.get_ident()
    locks = waited if isinstance(waited, list) else [waited]  # a list from CPython 3.12 on
    return next((str(lock.name) for lock in locks if getattr(lock, "owner", None) == me), "")


def _is_waiting(frame: FrameType) -> bool:
    return frame.f_globals.get("__name__") in ("threading", "queue", "concurrent.futures._base")


def _place(frame: FrameType) -> str:
    at: FrameType | None = frame
    while at is not None and _is_waiting(at):
        at = at.f_back
    at = at or frame
    return f"{at.f_code.co_filename}:{at.f_lineno}"


class _FirstUse:
    """A block in which the calling thread loads, imports or makes what all threads use from then on.

    A fork by another thread waits for its end, so nothing inside may wait for the engine. Each thread has a lock of
    its own, which a fork takes from all others. Threads: any, it excludes no thread.
    """

    #: seconds between two looks at who is inside
    LOOK = 0.005

    def __init__(self) -> None:
        self._own = threading.local()
        self._all: WeakGroup[ForkSafeLock] = WeakGroup()
        self._adding = ForkSafeLock()

    @property
    def __enter__(self) -> Callable[[], object]:
        return self._lock()._lock.__enter__

    @property
    def __exit__(self) -> Callable[..., None]:  # noqa: PLE0302  # a property: gives what takes them
        return self._lock()._lock.__exit__

    def block(self) -> AbstractContextManager[object]:
        """`with first_use.block():` is `with first_use:` in less time."""
        try:
            lock: ForkSafeLock = self._own.lock
        except AttributeError:
            lock = self._lock()
        return lock._lock

    def _lock(self) -> ForkSafeLock:
        """The calling thread's lock."""
        lock: ForkSafeLock | None = getattr(self._own, "lock", None)
        if lock is None:
            lock = ForkSafeLock()
            with self._adding:
                self._all.add(lock)
            self._own.lock = lock
        return lock

    def before_fork(self) -> None:
        """Waits until no other thread is inside, and keeps others out until the fork is over."""
        me = threading.get_ident()
        self._give_back()  # where it was interrupted
        limit = 0.0 if passed else _seconds("MX_FORK_TIMEOUT", 30.0)
        end = time.monotonic() + limit
        while not self._take_others() or _imports_elsewhere(me):
            if time.monotonic() >= end:
                text = f"another thread's first use had not finished {limit:g} s after the fork began"
                print(f"mx: {text}; the child may wait for it for ever", file=sys.stderr)
                return
            self._give_back()
            time.sleep(self.LOOK)

    def _take_others(self) -> bool:
        """Takes the locks of the other threads; False when one of them is inside."""
        own = self._lock()
        self._adding.acquire()
        return all(lock is own or lock.acquire(timeout=0) for lock in self._all)

    def _give_back(self) -> None:
        own = self._lock()
        for lock in (*self._all, self._adding):
            if lock is not own:
                with contextlib.suppress(RuntimeError):  # not taken, or not any more
                    while True:
                        lock.release()

    def after_fork_in_parent(self) -> None:
        self._give_back()

    def after_fork_in_child(self) -> None:
        self._give_back()
        self._all = WeakGroup()
        self._all.add(self._lock())


def _imports_elsewhere(me: int) -> bool:
    """Whether another thread imports a module of mx: it holds a lock of the import system."""
    locks: dict[Any, Any] = getattr(sys.modules.get("_frozen_importlib"), "_module_locks", {})
    for name, reference in list(locks.items()):
        lock = reference() if str(name).startswith("mx") else None
        if lock is not None and getattr(lock, "owner", None) not in (None, me):
            return True
    return False


def _seconds(variable: str, default: float) -> float:
    """A variable that mx-engine checks and explains. A value that it refuses counts as the default here."""
    try:
        return max(0.0, float(os.environ.get(variable, default)))
    except ValueError:
        return default


first_use = _FirstUse()


def _after_fork_in_child() -> None:
    first_use.after_fork_in_child()
    for lock in _locks:
        lock._after_fork_in_child()


def raise_passed(forking: FrameType) -> None:
    """Has the program raise what is in `passed` when the function is done that a frame is calling."""
    while passed:
        _native.raise_after_call(forking, passed[0])
        del passed[0]


def at_fork(
    *,
    before: Callable[[], object] | None = None,
    after_in_parent: Callable[[], object] | None = None,
    after_in_child: Callable[[], object] | None = None,
) -> None:
    """`os.register_at_fork` of functions that are called to their end.

    Native code calls a function again if Ctrl-C, or what else a handler of a signal raises, has ended it, so it must
    bear to be called again. The program raises the error after the fork, in the process that it was raised in.
    """
    given = {"before": before, "after_in_parent": after_in_parent, "after_in_child": after_in_child}
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(**{when: _surely(when, do) for when, do in given.items() if do is not None})


def _surely(when: str, function: Callable[[], object]) -> Callable[[], None]:
    def call() -> None:
        function()
        if when != "before":  # the functions of this module, which come first after the fork, see to that
            raise_passed(sys._getframe(1))

    return _native.surely(call, passed.append)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=passed.clear)
# Registered before any other function of mx, so the last before a fork, when the engine is quiet, and the first
# after it. The parent raises what was raised before the fork.
at_fork(
    before=first_use.before_fork,
    after_in_parent=first_use.after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)
