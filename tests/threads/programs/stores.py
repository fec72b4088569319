# SPDX-License-Identifier: Apache-2.0
"""Threads that push and pull keys of their own and common ones; long arrays are summed in slices."""

from __future__ import annotations

import numpy as np
from threads import ROUNDS, beside

import mx_kvstore
from mx_core import cpu
from mx_kvstore.compression import Compression
from mx_ndarray import nd


def work_on(kind: str, compressed: bool, updates: bool, size: int) -> None:
    """Each of three threads has a key, and all push another one."""
    store = mx_kvstore.create(kind)
    if compressed:
        store.set_gradient_compression({"type": "2bit", "threshold": 1})
    if updates:
        store.set_updater(lambda key, grad, weight: weight.__iadd__(grad))
    store.init(list(range(4)), [nd.zeros((size,))] * 4)

    def work(thread: int) -> None:
        for step in range(4):
            gradients = [nd.full((size,), 1, ctx=cpu(i)) for i in range(2)]
            outs = [nd.zeros((size,), ctx=cpu(i)) for i in range(2)]
            store.pushpull(thread, gradients, out=outs, priority=step)
            store.push(3, gradients)
            for out in outs:
                assert (out.asnumpy() == (2 * (step + 1) if updates else 2)).all()

    beside(work, 3)
    out = nd.zeros((size,))
    store.pull(3, out=out)
    assert (out.asnumpy() == (2 * 3 * 4 if updates else 2)).all()


def compress() -> None:
    """One setting serves several threads, each with memory of its own."""
    compression = Compression("2bit", 0.5)

    def work(thread: int) -> None:
        gradient, residual = np.full(1000, 0.5, np.float32), np.zeros(1000, np.float32)
        codes, out = np.zeros(compression.words(1000), np.uint32), np.zeros(1000, np.float32)
        for _ in range(100):
            compression.compress(gradient, residual, codes)
            compression.expand(codes, out, add=True)
        assert (out == 50).all() and (residual == 0).all()

    beside(work, 3)


if __name__ == "__main__":
    for _ in range(ROUNDS):
        for kind, compressed in (("local", False), ("device", False), ("device", True)):
            for updates in (False, True):
                for size in (5, 1_100_000):
                    work_on(kind, compressed, updates, size)
        compress()
    print("done")
