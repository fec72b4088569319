# SPDX-License-Identifier: Apache-2.0
"""Threads that import inner modules by name while others use mx for the first time.

Python may give one of them a module that is not whole, or find that they wait for each other. Whoever meets that is
told by an error of the import system, nobody waits for ever, and mx works afterwards.
"""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from importlib import import_module

import mx

INNER = ["mx_ndarray", "mx_ndarray.nd", "mx_ndarray.creation", "mx_ndarray.random"]
THREADS = 10
CHILDREN = 3


def use(seed: int, begin: threading.Barrier, errors: list[BaseException]) -> None:
    """Imports one of the inner modules, or uses a public name, four times."""
    drawn = random.Random(seed)
    begin.wait()
    for _ in range(4):
        try:
            if drawn.random() < 0.5:
                import_module(drawn.choice(INNER))
            else:
                mx.nd.ones((2, 2)).asnumpy()
        except BaseException as error:
            errors.append(error)


def first_use() -> None:
    """What a process can do once."""
    begin, errors = threading.Barrier(THREADS), list[BaseException]()
    threads = [threading.Thread(target=use, args=(i, begin, errors), daemon=True) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
        assert not thread.is_alive(), "a thread waits for ever"
    told = [error for error in errors if isinstance(error, (ImportError, KeyError))]
    deadlocks = [error for error in errors if type(error).__name__ == "_DeadlockError"]
    assert len(told) + len(deadlocks) == len(errors), errors
    assert (mx.nd.ones((2, 2)) + import_module("mx_ndarray.nd").zeros((2, 2))).asnumpy().tolist() == [
        [1.0] * 2
    ] * 2


if __name__ == "__main__":
    if sys.argv[1:]:
        first_use()
    else:
        for _ in range(CHILDREN):
            subprocess.run([sys.executable, __file__, "child"], check=True)
        print("done")
