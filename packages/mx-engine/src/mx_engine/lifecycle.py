# SPDX-License-Identifier: Apache-2.0
"""What happens to the engines of a process at fork and at exit."""

from __future__ import annotations

import atexit
import os
import sys
import weakref

from mx_engine._core import Engine
from mx_engine.settings import integer, seconds

_engines: weakref.WeakSet[Engine] = weakref.WeakSet()
_closed_for_fork: list[Engine] = []
_installed = False


def watch(engine: Engine) -> Engine:
    """Takes the engine into the care of this module; returns it."""
    global _installed
    _engines.add(engine)
    if not _installed:
        _installed = True
        atexit.register(shutdown)
        os.register_at_fork(
            before=before_fork,
            after_in_parent=lambda: after_fork(child=False),
            after_in_child=lambda: after_fork(child=True),
        )
    return engine


def engines() -> list[Engine]:
    """The engines that are alive."""
    return list(_engines)


def before_fork() -> None:
    """Lets the engines finish their work and ends their threads, so that the child inherits a
    quiet engine. Called twice for one fork, the second call does nothing."""
    if _closed_for_fork:
        return
    for engine in engines():
        _closed_for_fork.append(engine)
        engine.before_fork(seconds("MX_FORK_TIMEOUT", 30.0))


def after_fork(*, child: bool) -> None:
    """Opens the engines again; their threads come back with the next operation."""
    while _closed_for_fork:
        engine = _closed_for_fork.pop()
        engine.after_fork(child)
        if child and not engine.is_naive:
            engine.workers = integer("MXNET_MP_WORKER_NTHREADS", 1)


def shutdown() -> None:
    """Waits for pending work, tells of failures nobody has seen, and closes the engines for good.

    Work that does not end within `MX_SHUTDOWN_TIMEOUT` seconds (10) is given up, so that a process
    always ends.
    """
    limit = seconds("MX_SHUTDOWN_TIMEOUT", 10.0)
    for engine in engines():
        _engines.discard(engine)
        if not engine.drain(limit):
            print(
                f"mx: {engine.pending} operations were still running or waiting at exit "
                f"and are given up",
                file=sys.stderr,
            )
        engine.notify_shutdown()
        _report(*engine.unobserved())


def _report(count: int, texts: list[str]) -> None:
    if count == 0:
        return
    subject = "1 failure was" if count == 1 else f"{count} failures were"
    shown = texts[:5]
    rest = count - len(shown)
    lines = [f"mx: {subject} never observed:", *(f"  {text}" for text in shown)]
    if rest:
        lines.append(f"  and {rest} more")
    print("\n".join(lines), file=sys.stderr)
