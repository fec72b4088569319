# SPDX-License-Identifier: Apache-2.0
"""What a check is about to do: a process that watches another can then say in what it died."""

from __future__ import annotations

from collections.abc import Callable

_listener: Callable[[str], None] | None = None


def listen(listener: Callable[[str], None] | None) -> None:
    """Calls a function with every text that is announced from now on; None ends that."""
    global _listener
    _listener = listener


def announce(*parts: str | Callable[[], str]) -> None:
    """Says what comes next, before it does: texts, or functions that return them, joined by commas.

    Costs nothing where nobody listens.
    """
    if _listener is not None:
        _listener(", ".join(part() if callable(part) else part for part in parts))
