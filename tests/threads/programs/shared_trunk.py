# SPDX-License-Identifier: Apache-2.0
"""Threads that differentiate losses over one trunk: each gets its gradient or a clean refusal."""

from __future__ import annotations

import threading

import numpy as np
from threads import ROUNDS, beside

from mx_core.errors import MXNetError
from mx_ndarray import autograd, nd

FACTORS = (2.0, 3.0, 5.0)


def differentiate(size: int, retain: bool) -> None:
    """One round: as many losses and threads as factors."""
    x = nd.full((size,), 1.0)  # large arrays are computed without the interpreter's lock
    x.attach_grad()
    with autograd.record():
        trunk = x
        for _ in range(15):
            trunk = trunk * 1.0 + trunk * trunk * 0.0  # its derivative is 1
        losses = [trunk * factor for factor in FACTORS]
    refused = threading.Semaphore(0)

    def work(number: int) -> None:
        try:
            losses[number].backward(retain_graph=retain)
        except MXNetError as error:
            assert "freed by an earlier backward" in str(error), error
            refused.release()

    beside(work, len(losses))
    refusals = 0
    while refused.acquire(blocking=False):
        refusals += 1
    assert refusals == (0 if retain else len(FACTORS) - 1), refusals
    values = np.unique(x.grad.asnumpy())
    assert len(values) == 1 and values[0] in FACTORS, values


if __name__ == "__main__":
    for _ in range(12 * ROUNDS):
        for size in (4, 1 << 15):
            for retain in (False, True):
                differentiate(size, retain)
    print("done")
