# SPDX-License-Identifier: Apache-2.0
"""Threads with iterators of their own over shared arrays, and readers of one record file."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from threads import ROUNDS, beside

from mx_io.iterators.ndarray_iter import NDArrayIter
from mx_io.iterators.wrappers import PrefetchingIter
from mx_io.recordio import MXIndexedRecordIO, MXRecordIO
from mx_ndarray import nd


def batches(source: nd.NDArray, thread: int) -> None:
    """Every epoch gives every row once."""
    for k in range(3 * ROUNDS):
        rows = NDArrayIter(source, batch_size=4 + thread, shuffle=bool(k % 2), last_batch_handle="discard")
        for epoch in PrefetchingIter(rows), rows:
            epoch.reset()
            seen = np.concatenate([batch.data[0].asnumpy()[:, 0] for batch in epoch])
            assert len(set(seen.tolist())) == len(seen) == 40 // (4 + thread) * (4 + thread)


def payload(key: int) -> bytes:
    """Long enough that threads meet while they write and read."""
    return b"%d" % key * 10_000


def records(reader: MXIndexedRecordIO, plain: MXRecordIO, read: list[bytes]) -> None:
    """Reads by key are right whoever reads beside; a shared position gives every record to one reader."""
    for key in [*range(0, 200, 3), *range(199, 0, -7)]:
        assert reader.read_idx(key) == payload(key)
    while (record := plain.read()) is not None:
        read.append(record)


if __name__ == "__main__":
    source = nd.array(np.arange(120).reshape(40, 3))
    with tempfile.TemporaryDirectory() as folder:
        names = str(Path(folder) / "a.idx"), str(Path(folder) / "a.rec")
        with MXIndexedRecordIO(*names, "w") as writer:
            beside(lambda thread: [writer.write_idx(k, payload(k)) for k in range(thread, 200, 4)], 4)
        for count in (1, 2, 4):
            beside(lambda thread: batches(source, thread), count)
            with MXIndexedRecordIO(*names, "r") as reader, MXRecordIO(names[1], "r") as plain:
                read: list[bytes] = []
                beside(lambda _: records(reader, plain, read), count)
                assert sorted(read) == sorted(map(payload, range(200)))
    print("done")
