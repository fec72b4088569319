# SPDX-License-Identifier: Apache-2.0
"""Threads that call with lists which another thread changes: each call sees a list, or is refused."""

from __future__ import annotations

import random

from threads import ROUNDS, beside

from mx_core.errors import MXNetError
from mx_ndarray import nd

SIZES = [2, 3]
NUMBERS = [[float(i) for i in range(8)] for _ in range(6)]
SOURCE = nd.arange(36)


def change(choose: random.Random) -> None:
    """Lengthens and shortens the lists."""
    for _ in range(3000 * ROUNDS):
        SIZES[:] = [choose.randrange(1, 6) for _ in range(choose.randrange(1, 4))]
        row = choose.choice(NUMBERS)
        if choose.random() < 0.5:
            row.append(1.0)
        elif len(row) > 1:
            row.pop()
        if choose.random() < 0.3:
            NUMBERS.append([1.0] * 8)
        elif len(NUMBERS) > 2:
            NUMBERS.pop(0)


def call(choose: random.Random) -> None:
    """Makes and reshapes arrays as the lists say."""
    for _ in range(1000 * ROUNDS):
        assert 1 <= nd.zeros(SIZES).ndim <= 4
        try:
            made = nd.array(NUMBERS)
            assert made.asnumpy().shape == made.shape
        except (MXNetError, TypeError, ValueError):
            pass  # rows of different lengths
        try:
            assert SOURCE.reshape(SIZES).size == 36
        except (MXNetError, TypeError, ValueError):
            pass
        try:
            nd.sum(SOURCE.reshape((6, 6)), axis=SIZES)
        except (MXNetError, TypeError, ValueError):
            pass


def work(thread: int) -> None:
    """The first thread changes the lists that the others call with."""
    choose = random.Random(thread)
    change(choose) if thread == 0 else call(choose)


if __name__ == "__main__":
    beside(work, 4)
    print("done")
