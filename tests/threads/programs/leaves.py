# SPDX-License-Identifier: Apache-2.0
"""Threads that make one array a leaf, again and again, while others differentiate with it."""

from __future__ import annotations

from threads import ROUNDS, beside

from mx_core.errors import MXNetError
from mx_ndarray import autograd, nd

SHARED = nd.ones((4,))
SHARED.attach_grad()


def work(thread: int) -> None:
    """Attaches gradients, or computes one: twice ones, or a refusal."""
    for _ in range(400 * ROUNDS):
        if thread == 0:
            SHARED.attach_grad()
            continue
        own = nd.ones((4,))
        own.attach_grad()
        with autograd.record():
            loss = (SHARED * own * 2).sum()
        try:
            loss.backward()
        except MXNetError:
            continue
        assert own.grad.asnumpy().tolist() == [2.0] * 4
        gradient = SHARED.grad
        assert gradient is None or gradient.asnumpy().tolist() in ([2.0] * 4, [0.0] * 4)
        assert SHARED.detach().asnumpy().tolist() == [1.0] * 4


if __name__ == "__main__":
    beside(work, 4)
    print("done")
