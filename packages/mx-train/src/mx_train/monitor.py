# SPDX-License-Identifier: Apache-2.0
"""Monitor: statistics of parameters and intermediate values while a module trains."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from mx_core.errors import ArgumentError
from mx_ndarray import NDArray, nd

Statistic = Callable[[NDArray], NDArray | Sequence[NDArray]]


def mean_norm(array: NDArray) -> NDArray:
    """‖x‖ / √n: the root of the mean square."""
    result: NDArray = nd.norm(array) / math.sqrt(max(array.size, 1))
    return result


class Monitor:
    """Every `interval` batches, a statistic of outputs, arguments and states whose names match.

    While a monitor is installed, executors run operator by operator; it is for debugging.

    Threads: one at a time.

    Parameters
    ----------
    interval : int
        Batches between two looks.
    stat_func : callable, optional
        From an NDArray to an NDArray or several; by default the root of the mean square.
    pattern : str
        Regular expression that the beginning of a name must match.
    sort : bool
        Report by name.
    monitor_all : bool
        Inputs of operators too.

    Examples
    --------
    >>> module.fit(train, num_epoch=1, monitor=Monitor(100, pattern=".*weight"))
    """

    def __init__(
        self,
        interval: int,
        stat_func: Statistic | None = None,
        pattern: str = ".*",
        sort: bool = False,
        monitor_all: bool = False,
    ) -> None:
        if interval < 1:
            raise ArgumentError(f"[Monitor] interval: expected at least 1, got {interval}")
        self.stat_func = mean_norm if stat_func is None else stat_func
        self.interval = interval
        self.activated = False
        self.queue: list[tuple[int, str, Any]] = []
        self.step = 0
        self.exes: list[Any] = []
        self.re_prog = re.compile(pattern)
        self.sort = sort
        self.monitor_all = monitor_all

    def install(self, exe: Any) -> None:
        """Looks at an executor; several may be installed."""
        exe.set_monitor_callback(self.stat_helper, self.monitor_all)
        self.exes.append(exe)

    def stat_helper(self, name: str, array: NDArray) -> None:
        """What executors call."""
        if self.activated and self.re_prog.match(name):
            self.queue.append((self.step, name, self.stat_func(array)))

    def tic(self) -> None:
        """Before a batch: begins to look, if it is time."""
        if self.step % self.interval == 0:
            self.queue = []
            self.activated = True
        self.step += 1

    def toc(self) -> list[tuple[int, str, str]]:
        """After a batch: (batch, name, statistic as text) of what was seen; waits for it."""
        if not self.activated:
            return []
        for exe in self.exes:
            for table in (exe.arg_dict, exe.aux_dict):
                for name, array in table.items():
                    self.stat_helper(name, array)
        self.activated = False
        if self.sort:
            self.queue.sort(key=lambda entry: entry[1])
        found = [(step, name, _text(value)) for step, name, value in self.queue]
        self.queue = []
        return found

    def toc_print(self) -> None:
        """As `toc`, into the log."""
        for step, name, text in self.toc():
            logging.info("Batch: %7d %-30s %s", step, name, text)


def _text(value: Any) -> str:
    parts = [value] if isinstance(value, NDArray) else list(value)
    for part in parts:
        if not isinstance(part, NDArray):
            raise ArgumentError(
                f"[Monitor] stat_func: expected an NDArray or several, got {type(part).__name__}"
            )
    return "".join(
        f"{part.asscalar()!s}\t" if part.shape in ((), (1,)) else f"{part.asnumpy()}\t" for part in parts
    )
