# SPDX-License-Identifier: Apache-2.0
"""The failure of a job as a worker knows it: found once, kept for good, raised by all that waits or would wait."""

from __future__ import annotations

import threading
from collections.abc import Callable

from mx_core.errors import MXNetError


class Fault:
    """Whether the job has failed. Threads: any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._error: MXNetError | None = None
        self._listeners: list[Callable[[MXNetError], object]] = []

    def set(self, error: MXNetError) -> bool:
        """Takes a failure, if it is the first; tells all listeners on this thread."""
        with self._lock:
            if self._error is not None:
                return False
            self._error = error
            listeners = list(self._listeners)
        for listener in listeners:
            listener(error)
        return True

    def listen(self, listener: Callable[[MXNetError], object]) -> None:
        """Calls `listener(error)` at the failure."""
        with self._lock:
            self._listeners.append(listener)

    @property
    def error(self) -> MXNetError | None:
        """The failure; a new exception each time, since each is raised at another place."""
        return None if self._error is None else type(self._error)(*self._error.args)

    def check(self) -> None:
        """Raises the failure, if there is one."""
        error = self.error
        if error is not None:
            raise error
