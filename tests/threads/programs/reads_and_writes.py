# SPDX-License-Identifier: Apache-2.0
"""Threads that read an array which others write: every read sees one write, whole."""

from __future__ import annotations

import threading

from threads import ROUNDS, beside

from mx_ndarray import nd


def work_on(size: int) -> None:
    """Two threads write numbers, two read."""
    x = nd.zeros((size,))
    written = threading.Event()

    def work(thread: int) -> None:
        if thread < 2:
            for k in range(150):
                x[:] = float(k)
                if k % 10 == 0:
                    x.wait_to_read()  # so that the queue stays short
            written.set()
        else:
            while not written.is_set():
                values = x.asnumpy()
                assert values.min() == values.max(), (values.min(), values.max())
                assert 0 <= x[0].asscalar() < 150

    beside(work, 4)


if __name__ == "__main__":
    for _ in range(ROUNDS):
        for size in (1, 1000, 1 << 15, 1 << 20):
            work_on(size)
    print("done")
