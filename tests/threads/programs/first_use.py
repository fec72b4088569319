# SPDX-License-Identifier: Apache-2.0
"""Threads whose first act is the same operator: nothing that one of them uses is freed by another."""

from __future__ import annotations

import random

from threads import ROUNDS, beside

from mx_core import operators
from mx_ndarray import _core, autograd, nd


def work(thread: int) -> None:
    """Uses operators without parameters, with scalars and with gradients."""
    x = nd.full((3,), 2.0)
    x.attach_grad()
    with autograd.record():
        y = (x - x * 3 + nd.relu(x) / 2).sum() + nd.concat(x, x, dim=0).sum()
    y.backward()
    assert x.grad.asnumpy().tolist() == [0.5] * 3
    assert (nd.ones((2, 2)) + thread).asnumpy().tolist() == [[1.0 + thread] * 2] * 2
    assert nd.random.uniform(0, 1, shape=(thread + 1,)).shape == (thread + 1,)


if __name__ == "__main__":
    names = [name for name in operators.names() if not name.startswith("_backward")]
    for _ in range(10 * ROUNDS):
        for count in (2, 3, 7):
            _core.forget_operators()  # so that everything is used for the first time
            for name in random.sample(names, 20):
                operators.get(name)
            beside(work, count)
    print("done")
