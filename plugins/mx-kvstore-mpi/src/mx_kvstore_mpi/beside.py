# SPDX-License-Identifier: Apache-2.0
"""A thread that does something beside the one that asks."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable


class Beside:
    """Runs functions one after the other on a thread of its own. Threads: one.

    The thread ends with the process, and not before: pools of the standard library take nothing once a program has
    ended, and sums go on until all workers have.
    """

    def __init__(self, name: str) -> None:
        self._queue: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def begin(self, function: Callable[[], object]) -> Callable[[], None]:
        """Has the function run; what it returns waits for its end, and raises what it has raised."""
        over = threading.Event()
        errors: list[BaseException] = []

        def run() -> None:
            try:
                function()
            except BaseException as error:
                errors.append(error)
            over.set()

        def wait() -> None:
            over.wait()
            if errors:
                raise errors[0]

        self._queue.put(run)
        return wait

    def _run(self) -> None:
        while True:
            self._queue.get()()
