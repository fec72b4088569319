# SPDX-License-Identifier: Apache-2.0
"""What the calling thread does for a call with a shape that it has not seen, as JSON.

`python new_shapes.py` measures mx, `python new_shapes.py PyTorch` the like of some calls there.

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


def layers() -> dict[str, tuple[Callable[[int], tuple[Any, ...]], Call]]:
    """The same for what oneDNN computes, or once did: the making of their plans is measured apart."""
    from mx_ndarray import nd

    def image(n: int) -> tuple[Any, ...]:
        return (numbers(1, 2, n, 8),)

    def channels(n: int, count: int) -> tuple[Any, ...]:
        return tuple(numbers(n) for _ in range(count))

    return {
        "dot": (lambda n: (numbers(n, 8), numbers(8, 4)), nd.dot),
        "softmax": (lambda n: (numbers(n, 8),), nd.softmax),
        "FullyConnected": (
            lambda n: (numbers(n, 8), numbers(4, 8), numbers(4)),
            lambda x, w, b: nd.FullyConnected(x, w, b, num_hidden=4),
        ),
        "Pooling": (
            image,
            lambda x: nd.Pooling(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="max"),
        ),
        "BatchNorm": (lambda n: (*image(n), *channels(2, 4)), nd.BatchNorm),
        "LayerNorm": (lambda n: (numbers(n, 8), *channels(8, 2)), nd.LayerNorm),
        "Convolution": (
            lambda n: (*image(n), numbers(4, 2, 3, 3), numbers(4)),
            lambda x, w, b: nd.Convolution(x, w, b, kernel=(3, 3), num_filter=4),
        ),
    }


def in_pytorch() -> dict[str, tuple[Callable[[int], tuple[Any, ...]], Call]]:
    """Calls of PyTorch by the names of those they are compared with."""
    import torch
    from torch.nn import functional as F

    torch.set_grad_enabled(False)
    zeros = torch.zeros
    pool = {"kernel_size": 3, "stride": 2, "padding": 1}
    return {
        "a + b": (lambda n: (zeros(n, 8), zeros(n, 8)), lambda a, b: a + b),
        "broadcast_add": (lambda n: (zeros(n, 8), zeros(1, 8)), torch.add),
        "exp": (lambda n: (zeros(n, 8),), torch.exp),
        "where": (lambda n: (zeros(n, 8) > 0, zeros(n, 8), zeros(n, 8)), torch.where),
        "zeros": (lambda n: ((n, 8),), torch.zeros),
        "sum": (lambda n: (zeros(n, 8),), torch.sum),
        "mean of an axis": (lambda n: (zeros(n, 8),), lambda a: a.mean(1)),
        "argmax": (lambda n: (zeros(n, 8),), lambda a: a.argmax(1)),
        "concat": (lambda n: (zeros(n, 8), zeros(n, 8)), lambda a, b: torch.cat((a, b), 1)),
        "stack": (lambda n: (zeros(n, 8), zeros(n, 8)), lambda a, b: torch.stack((a, b))),
        "dot": (lambda n: (zeros(n, 8), zeros(8, 4)), torch.mm),
        "softmax": (lambda n: (zeros(n, 8),), lambda a: torch.softmax(a, 1)),
        "FullyConnected": (lambda n: (zeros(n, 8), zeros(4, 8), zeros(4)), F.linear),
        "Pooling": (lambda n: (zeros(1, 2, n, 8),), lambda x: F.max_pool2d(x, **pool)),
        "BatchNorm": (lambda n: (zeros(1, 2, n, 8), *(zeros(2) for _ in range(4))), F.batch_norm),
        "LayerNorm": (
            lambda n: (zeros(n, 8), zeros(8), zeros(8)),
            lambda x, g, b: F.layer_norm(x, (8,), g, b),
        ),
        "Convolution": (lambda n: (zeros(1, 2, n, 8), zeros(4, 2, 3, 3), zeros(4)), F.conv2d),
    }


def microseconds(
    arguments: Callable[[int], tuple[Any, ...]],
    call: Call,
    wait: Callable[[], object],
    plans: PlanTime | None = None,
) -> tuple[float, float]:
    """The medians of the calls, and of their part that makes plans."""
    given = [arguments(n) for n in range(FIRST, FIRST + NUMBER)]
    wait()
    taken, inside = [], []
    for each in given:
        before = 0.0 if plans is None else plans.taken
        began = time.thread_time_ns()
        made = call(*each)
        taken.append((time.thread_time_ns() - began) / 1e3)
        inside.append(0.0 if plans is None else plans.taken - before)
        del made
    wait()
    return statistics.median(taken), statistics.median(inside)


class PlanTime:
    """Microseconds that the calling thread spends in native functions of the kernels for CPUs, which make plans.

    Where a plan has a primitive of oneDNN, nearly all of them are oneDNN's.
    """

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
    """Measures all of them."""
    os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count()))
    if sys.argv[1:] == ["PyTorch"]:
        whole = {name: microseconds(*both, wait=lambda: None)[0] for name, both in in_pytorch().items()}
        print(json.dumps({"whole": whole}))
        return
    from mx_ndarray import nd

    whole = {name: microseconds(*both, wait=nd.waitall)[0] for name, both in operators().items()}
    plans = PlanTime()
    inside: dict[str, float] = {}
    for name, both in layers().items():
        whole[name], inside[name] = microseconds(*both, wait=nd.waitall, plans=plans)
    print(json.dumps({"whole": whole, "plans": inside}))


if __name__ == "__main__":
    main()
