# SPDX-License-Identifier: Apache-2.0
"""What the programs share: how long they run, and functions run beside each other."""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
from collections.abc import Callable

#: how often a program does its part; more if the environment says so
ROUNDS = int(os.environ.get("MX_THREAD_ROUNDS", "1"))

#: whether this CPython can do without the GIL
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))

sys.setswitchinterval(1e-6)


def beside(work: Callable[[int], None], count: int) -> None:
    """Runs `work(0)`, `work(1)`, ... in threads that begin together; raises what one of them raised."""
    assert not FREE_THREADED or not sys._is_gil_enabled(), "an extension has turned the GIL on"
    barrier = threading.Barrier(count)
    errors: list[BaseException] = []

    def run(number: int) -> None:
        barrier.wait()
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
