# SPDX-License-Identifier: Apache-2.0
"""The failure of a job: found once, kept for good, and raised by everything that waits or would wait."""

from __future__ import annotations

import threading
from collections.abc import Callable

from mx_core.errors import MXNetError


class Fault:
    """Whether the job has failed. Threads: any.

    Parameters
    ----------
    generation : int
        Of the job; failures of another generation are not taken.
    """

    def __init__(self, generation: int = 1) -> None:
        self.generation = generation
        self._lock = threading.Lock()
        self._error: MXNetError | None = None
        self._listeners: list[Callable[[MXNetError], object]] = []

    def set(self, error: MXNetError, generation: int | None = None) -> bool:
        """Takes a failure, if it is the first and of this generation; tells all listeners on this thread."""
        with self._lock:
            if self._error is not None or generation not in (None, self.generation):
                return False
            self._error = error
            listeners = list(self._listeners)
        for listener in listeners:
            listener(error)
        return True

    def listen(self, listener: Callable[[MXNetError], object]) -> None:
        """Calls `listener(error)` at the failure; at once if it has been."""
        with self._lock:
            self._listeners.append(listener)
            error = self._error
        if error is not None:
            listener(error)

    @property
    def error(self) -> MXNetError | None:
        """The failure; a new exception each time, since each is raised at another place."""
        return None if self._error is None else type(self._error)(*self._error.args)

    def check(self) -> None:
        """Raises the failure, if there is one."""
        if self._error is not None:
            error = self.error
            assert error is not None
            raise error
