# SPDX-License-Identifier: Apache-2.0
"""Says what a start waits for, while it lasts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def saying(what: str, say: Callable[[str], object], at_once: bool, every: float = 15.0) -> Iterator[None]:
    """Says what is done here when it begins, and again after each so many seconds.

    Threads: `say` is called by one of its own after the first time.

    Parameters
    ----------
    what : str
        Such as `starting servers`.
    say : callable
        (text) -> None.
    at_once : bool
        Whether it is said when it begins.
    every : float
        Seconds.
    """
    begun, over = time.monotonic(), threading.Event()

    def repeat() -> None:
        while not over.wait(every):
            say(f"{what}, for {time.monotonic() - begun:.0f} s so far")

    if at_once:
        say(f"{what}…")
    thread = threading.Thread(target=repeat, name="mx kvstore: progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
