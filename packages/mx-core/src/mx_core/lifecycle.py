# SPDX-License-Identifier: Apache-2.0
"""Calls `mx_fork` around forks and `mx_shutdown` at exit, users before the parts that they use.

Users come before what they use: plug-ins that push work, the engine, what operations run on
(operators, kernels), memory, devices. Within a rank the last loaded comes first.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mx_core.forks import ForkSafeLock
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
_interrupted = False
_lock = ForkSafeLock()


def install(manager: Manager, records: Sequence[PluginRecord]) -> None:
    """Calls the hooks of these plug-ins at forks and at exit."""
    global _current
    with _lock:
        _current = _Lifecycle(manager, records)


def fork(stage: str) -> None:
    """Calls every `mx_fork`: users first before the fork, providers first after it."""
    if _current is None:
        return
    implementations = _current.forks if stage == "before" else _current.forks[::-1]
    passed = [_call(implementation, f"mx_fork({stage!r})", stage) for implementation in implementations]
    _raise_first(passed)


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
    called; those that come after it find `interrupted`. What a handler has raised is raised after them."""
    global _current
    with _lock:
        lifecycle, _current = _current, None
    passed = []
    for implementation in lifecycle.shutdowns if lifecycle is not None else ():
        error = _call(implementation, _SHUTDOWN)
        if error is not None:
            interrupt()
            name = implementation.plugin_name
            print(f"mx: {_SHUTDOWN} of plug-in {name!r} was interrupted", file=sys.stderr)
        if not isinstance(error, KeyboardInterrupt):
            passed.append(error)
    _raise_first(passed)


def _call(implementation: HookImpl, what: str, *arguments: Any) -> BaseException | None:
    """Prints an exception, so that the other plug-ins are still called; what is not the plug-in's is returned."""
    try:
        implementation.function(*arguments[: len(implementation.argnames)])
    except (Exception, SystemExit) as error:
        try:
            let_pass(error)
        except BaseException as of_handler:
            return of_handler
        import traceback

        text = traceback.format_exc()
        print(f"mx: {what} of plug-in {implementation.plugin_name!r}:\n{text}", file=sys.stderr)
    except BaseException as error:
        return error
    return None


def _raise_first(errors: Sequence[BaseException | None]) -> None:
    for error in errors:
        if error is not None:
            raise error


# With the first import of mx, not with its first use: handlers that a program registers in between
# are called before `shutdown`, while everything works.
atexit.register(shutdown)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: fork("before"),
        after_in_parent=lambda: fork("parent"),
        after_in_child=lambda: fork("child"),
    )
