# SPDX-License-Identifier: Apache-2.0
"""Profiler scopes: prefixes of names, per thread. A profiler enters and leaves them; listeners follow them."""

from __future__ import annotations

import threading
from collections.abc import Callable

Listener = Callable[[str], None]


class _Current(threading.local):
    prefix = ""


_current = _Current()
_listeners: list[Listener] = []


def prefix() -> str:
    """What comes before names in this thread: empty, or such as `encoder:layer1:`."""
    return _current.prefix


def enter(prefix: str) -> str:
    """Enters another scope on this thread.

    Parameters
    ----------
    prefix : str
        Empty outside of all.

    Returns
    -------
    str
        The prefix before.
    """
    former = _current.prefix
    _current.prefix = prefix
    for listener in _listeners:
        listener(prefix)
    return former


def listen(listener: Listener) -> None:
    """Calls `listener(prefix)` when a thread changes its scope, on that thread."""
    _listeners.append(listener)
