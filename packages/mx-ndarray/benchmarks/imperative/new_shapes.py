# SPDX-License-Identifier: Apache-2.0
"""What the calling thread does for a call with a shape that it has not seen; `python new_shapes.py` prints JSON.

Processor time of the thread, not seconds: what else runs on the machine does not count. Each call has another shape, so
each one infers, chooses and prepares a kernel and makes what it needs of the engine and of memory.
"""

from __future__ import annotations

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
        "split": (one, lambda a: nd.split(a, num_outputs=2, axis=1)),
        "take": (lambda n: (numbers(n, 8), numbers(2)), nd.take),
        "one_hot": (lambda n: (numbers(n),), lambda a: nd.one_hot(a, depth=5)),
        "sgd_update": (two, lambda a, b: nd.sgd_update(a, b, lr=0.1, out=a)),
        # the calls from here on make a primitive of oneDNN
        "dot": (lambda n: (numbers(n, 8), numbers(8, 4)), nd.dot),
        "softmax": (one, nd.softmax),
    }


def microseconds(arguments: Callable[[int], tuple[Any, ...]], call: Call) -> float:
    """The median of the calls."""
    from mx_ndarray import nd

    given = [arguments(n) for n in range(FIRST, FIRST + NUMBER)]
    nd.waitall()
    taken = []
    for each in given:
        began = time.thread_time_ns()
        made = call(*each)
        taken.append((time.thread_time_ns() - began) / 1e3)
        del made
    nd.waitall()
    return statistics.median(taken)


def main() -> None:
    """Measures all of them."""
    os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count()))
    print(json.dumps({name: microseconds(*both) for name, both in operators().items()}), file=sys.stdout)


if __name__ == "__main__":
    main()
