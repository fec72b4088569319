# SPDX-License-Identifier: Apache-2.0
"""Calls `mx_fork` around forks and `mx_shutdown` at exit, users before the parts that they use.

Users come before what they use: plug-ins that push work, the engine, what operations run on
(operators, kernels), memory, devices. Within a rank the last loaded comes first.
"""

from __future__ import annotations

import atexit
import sys
import threading
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from mx_core.forks import ForkSafeLock, at_fork, passed
from mx_core.signals import let_pass

if TYPE_CHECKING:
    from pluggy import HookImpl

    from mx_core.plugins.discovery import PluginRecord
    from mx_core.plugins.loading import Manager

_RANKS = {
    "engines": 1,
    "operators": 2,
    "kernels": 2,
    "kernel_generators": 2,
    "storage_managers": 3,
    "resources": 3,
    "devices": 4,
}

#: in the message of what a plug-in makes fail because the program itself has failed: the exit does not tell of it again
PROGRAM_FAILED = "the program has failed"

_SHUTDOWN = "mx_shutdown()"


class _Lifecycle:
    """Ordered hook implementations of the loaded plug-ins."""

    def __init__(self, manager: Manager, records: Sequence[PluginRecord]) -> None:
        loaded = [record for record in records if record.state == "loaded"]
        order = sorted(reversed(loaded), key=_rank)
        position = {record.name: index for index, record in enumerate(order)}

        def ordered(hook: str) -> list[HookImpl]:
            implementations = getattr(manager.hook, hook).get_hookimpls()
            return sorted(implementations, key=lambda impl: position[impl.plugin_name])

        self.forks = ordered("mx_fork")
        self.shutdowns = ordered("mx_shutdown")


def _rank(record: PluginRecord) -> int:
    return max((_RANKS.get(kind, 0) for kind, _ in record.contributions), default=0)


_current: _Lifecycle | None = None
#: by thread, and by its forks that this one interrupted: the stage of the fork, and the hooks that have not been called
_under_way: dict[tuple[int, int], tuple[str, list[HookImpl]]] = {}
_interrupted = False
_lock = ForkSafeLock()


def install(manager: Manager, records: Sequence[PluginRecord]) -> None:
    """Calls the hooks of these plug-ins at forks and at exit."""
    global _current
    with _lock:
        _current = _Lifecycle(manager, records)


def fork(stage: str) -> None:
    """Calls every `mx_fork`: users first before the fork, providers first after it. What handlers of signals raise
    meanwhile is the program's, which raises it in the process that it was raised in, after the fork.

    A hook that was interrupted is called once more, so that an engine is open again, and where this function was
    interrupted itself, it goes on when it is called again.
    """
    if _current is None:
        return
    key = threading.get_ident(), _interrupted_forks()
    if key not in _under_way or _under_way[key][0] != stage:
        _under_way[key] = stage, (_current.forks if stage == "before" else _current.forks[::-1]).copy()
    left = _under_way[key][1]
    first: tuple[HookImpl, type[BaseException]] | None = None
    while left:
        hook = left[0]
        try:
            _call(hook, f"mx_fork({stage!r})", stage)
        except BaseException as error:
            if first != (hook, type(error)):  # the same again is as good as raised once
                raise_after_fork(error)
            if first is None or first[0] is not hook:
                first = hook, type(error)
                continue
        del left[0]
    if stage == "child":
        _under_way.clear()  # there are no other threads
    else:
        _under_way.pop(key, None)


def _interrupted_forks() -> int:
    """How often the caller is in the stack: a handler of a signal may fork while its thread prepares a fork."""
    count, frame = 0, sys._getframe(1).f_back
    while frame is not None:
        count += frame.f_code is fork.__code__
        frame = frame.f_back
    return count


def raise_after_fork(error: BaseException) -> None:
    """Has the program raise an error when the fork is done, in the parent if called before it; for functions that
    Python calls at forks, which prints what they raise."""
    passed.append(error)


def interrupted() -> bool:
    """Whether the process ends because of an uncaught Ctrl-C, so that no code waits
    for what is still to be done. In an interactive session that is never known."""
    if hasattr(sys, "ps1") or sys.flags.interactive:
        return _interrupted
    return _interrupted or issubclass(getattr(sys, "last_type", None) or type(None), KeyboardInterrupt)


def interrupt() -> None:
    """Makes `interrupted` true: Ctrl-C was caught, and the process must end at once all the same."""
    global _interrupted
    _interrupted = True


def shutdown() -> None:
    """Calls every `mx_shutdown` once, users first. Ctrl-C and what a handler of a signal raises end the one that is
    called; those that come after it find `interrupted`. The first error of a handler is raised when all have heard."""
    global _current
    with _lock:
        lifecycle, _current = _current, None
    passed: list[tuple[str, BaseException]] = []
    for implementation in lifecycle.shutdowns if lifecycle is not None else ():
        try:
            _call(implementation, _SHUTDOWN)
        except BaseException as error:
            interrupt()
            passed.append((implementation.plugin_name, error))
    for name, cause in passed:
        by = "" if isinstance(cause, KeyboardInterrupt) else f" by {cause!r}"
        _report(f"{_SHUTDOWN} of plug-in {name!r} was interrupted{by}")
    for _, cause in passed:
        if not isinstance(cause, KeyboardInterrupt):
            raise cause


def _call(implementation: HookImpl, what: str, *arguments: Any) -> None:
    """Prints an exception of the plug-in, so that the other ones are still called; raises what is not the plug-in's."""
    try:
        implementation.function(*arguments[: len(implementation.argnames)])
    except BaseException as error:
        let_pass(error)
        import traceback

        _report(f"{what} of plug-in {implementation.plugin_name!r}:\n{traceback.format_exc()}")


def _report(text: str) -> None:
    """Prints a message; where the error stream is gone, the program ends as well without it."""
    if sys.stderr is None:
        return
    try:
        print(f"mx: {text}", file=sys.stderr)
    except Exception as error:
        let_pass(error)


# With the first import of mx, not with its first use: handlers that a program registers in between
# are called before `shutdown`, while everything works.
atexit.register(shutdown)
at_fork(
    before=partial(fork, "before"),
    after_in_parent=partial(fork, "parent"),
    after_in_child=partial(fork, "child"),
)
