# SPDX-License-Identifier: Apache-2.0
"""Threads that save to one name while others load it: every load sees one whole file."""

from __future__ import annotations

import tempfile
from pathlib import Path

from threads import ROUNDS, beside

from mx_ndarray import nd


def work(path: Path, thread: int) -> None:
    """Two threads save arrays of one number, the others load."""
    for k in range(12 * ROUNDS):
        if thread < 2:
            number = float(100 * thread + k)
            nd.save(path, {"a": nd.full((300, 7), number), "b": nd.full((3,), number)})
        else:
            found = nd.load(path)
            a, b = found["a"].asnumpy(), found["b"].asnumpy()
            assert a.min() == a.max() == b.min() == b.max()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "arrays.params"
        nd.save(path, {"a": nd.zeros((300, 7)), "b": nd.zeros((3,))})
        for count in (2, 4):
            beside(lambda thread: work(path, thread), count)
        assert [found.name for found in Path(folder).iterdir()] == ["arrays.params"]
    print("done")
