# SPDX-License-Identifier: Apache-2.0
"""What the calling thread does for a call with a shape that it has not seen; `python new_shapes.py` prints JSON.

Processor time of the thread, not seconds: what else runs on the machine does not count. Each call has another shape, so
each one infers, chooses and prepares a kernel and makes what it needs of the engine and of memory.
"""

from __future__ import annotations

import inspect
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

FIRST, NUMBER = 3, 200

Call = Callable[..., object]


def numbers(*shape: int) -> Any:
    """An array whose memory is there."""
    from mx_ndarray import nd

    return nd.array(np.zeros(shape, np.float32))


def operators() -> dict[str, tuple[Callable[[int], tuple[Any, ...]], Call]]:
    """Calls by name, each with what makes the arguments of the n-th."""
    from mx_ndarray import nd

    def one(n: int) -> tuple[Any, ...]:
        return (numbers(n, 8),)

    def two(n: int) -> tuple[Any, ...]:
        return numbers(n, 8), numbers(n, 8)

    def shape(n: int) -> tuple[Any, ...]:
        return ((n, 8),)

    def assign(a: Any) -> None:
        a[:, 1:3] = 1.0

    def add_in_place(a: Any, b: Any) -> None:
        a += b

    return {
        "a + b": (two, lambda a, b: a + b),
        "a * 2": (one, lambda a: a * 2),
        "a == b": (two, lambda a, b: a == b),
        "a += b": (two, add_in_place),
        "broadcast_add": (lambda n: (numbers(n, 8), numbers(1, 8)), nd.broadcast_add),
        "exp": (one, nd.exp),
        "clip": (one, lambda a: nd.clip(a, 0, 1)),
        "where": (lambda n: (*two(n), numbers(n, 8)), nd.where),
        "astype": (one, lambda a: a.astype("float16")),
        "zeros": (shape, nd.zeros),
        "ones": (shape, nd.ones),
        "full": (shape, lambda s: nd.full(s, 2.5)),
        "zeros_like": (one, nd.zeros_like),
        "random.uniform": (shape, lambda s: nd.random.uniform(0, 1, s)),
        "arange": (lambda n: (n,), nd.arange),
        "sum": (one, lambda a: a.sum()),
        "mean of an axis": (one, lambda a: nd.mean(a, axis=1)),
        "argmax": (one, lambda a: nd.argmax(a, axis=1)),
        "a.reshape": (one, lambda a: a.reshape((-1,))),
        "reshape": (one, lambda a: nd.reshape(a, shape=(-1, 4))),
        "expand_dims": (one, lambda a: nd.expand_dims(a, axis=0)),
        "transpose": (one, nd.transpose),
        "a[1:3]": (one, lambda a: a[1:3]),
        "a[:, 1:3]": (one, lambda a: a[:, 1:3]),
        "a[:, 1:3] = 1.0": (one, assign),
        "slice": (one, lambda a: nd.slice(a, begin=(0, 1), end=(2, 4))),
        "concat": (two, lambda a, b: nd.concat(a, b, dim=1)),
        "stack": (two, nd.stack),
        "split": (one, lambda a: nd.split(a, num_outputs=2, axis=1)),
        "take": (lambda n: (numbers(n, 8), numbers(2)), nd.take),
        "one_hot": (lambda n: (numbers(n),), lambda a: nd.one_hot(a, depth=5)),
        "sgd_update": (two, lambda a, b: nd.sgd_update(a, b, lr=0.1, out=a)),
    }


def primitives() -> dict[str, tuple[Callable[[int], tuple[Any, ...]], Call]]:
    """The same for calls that make a primitive of oneDNN."""
    from mx_ndarray import nd

    def image(n: int) -> tuple[Any, ...]:
        return numbers(1, 2, n, 8), numbers(4, 2, 3, 3), numbers(4)

    return {
        "dot": (lambda n: (numbers(n, 8), numbers(8, 4)), nd.dot),
        "softmax": (lambda n: (numbers(n, 8),), nd.softmax),
        "FullyConnected": (
            lambda n: (numbers(n, 8), numbers(4, 8), numbers(4)),
            lambda x, w, b: nd.FullyConnected(x, w, b, num_hidden=4),
        ),
        "Convolution": (image, lambda x, w, b: nd.Convolution(x, w, b, kernel=(3, 3), num_filter=4)),
    }


def microseconds(
    arguments: Callable[[int], tuple[Any, ...]], call: Call, library: LibraryTime | None = None
) -> tuple[float, float]:
    """The medians of the calls, and of their part in the library."""
    from mx_ndarray import nd

    given = [arguments(n) for n in range(FIRST, FIRST + NUMBER)]
    nd.waitall()
    taken, inside = [], []
    for each in given:
        before = 0.0 if library is None else library.taken
        began = time.thread_time_ns()
        made = call(*each)
        taken.append((time.thread_time_ns() - began) / 1e3)
        inside.append(0.0 if library is None else library.taken - before)
        del made
    nd.waitall()
    return statistics.median(taken), statistics.median(inside)


class LibraryTime:
    """Microseconds that the calling thread spends in native functions of the kernels for CPUs, which make plans."""

    def __init__(self) -> None:
        self.taken = 0.0
        self.native = sys.modules.get("mx_operators_cpu._native")
        for name, function in vars(self.native).copy().items() if self.native is not None else ():
            if inspect.isroutine(function):
                setattr(self.native, name, self._timed(function))

    def _timed(self, function: Call) -> Call:
        def call(*args: object, **kwargs: object) -> object:
            began = time.thread_time_ns()
            try:
                return function(*args, **kwargs)
            finally:
                self.taken += (time.thread_time_ns() - began) / 1e3

        return call


def main() -> None:
    """Measures all of them; of those that make a primitive also the part of the native plan, that is of oneDNN."""
    os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count()))
    whole = {name: microseconds(*both)[0] for name, both in operators().items()}
    library = LibraryTime()
    inside: dict[str, float] = {}
    for name, both in primitives().items():
        whole[name], inside[name] = microseconds(*both, library)
    print(json.dumps({"whole": whole, "library": inside}), file=sys.stdout)


if __name__ == "__main__":
    main()
