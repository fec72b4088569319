# SPDX-License-Identifier: Apache-2.0
"""Threads that make arrays of more shapes than a function remembers calls."""

from __future__ import annotations

import random

from threads import ROUNDS, beside

from mx_ndarray import nd


def work(thread: int) -> None:
    """Makes arrays of random shapes and scalars; each has what it was asked for."""
    choose = random.Random(thread)
    for _ in range(400 * ROUNDS):
        n, value = choose.randrange(1, 2000), float(choose.randrange(100))
        assert nd.zeros((n,)).shape == (n,)
        made = nd.full((n % 10 + 1,), value) + value
        assert made.asnumpy().tolist() == [2 * value] * (n % 10 + 1)


if __name__ == "__main__":
    for count in (1, 2, 3, 7):
        beside(work, count)
    print("done")
