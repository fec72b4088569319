# SPDX-License-Identifier: Apache-2.0
"""Batches in page-locked memory: their blocks come from the storage manager of `cpu_pinned`, whatever it is."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from mx_core import cpu, cpu_pinned, services
from mx_core.errors import ArgumentError
from mx_io import codecs, recordio
from mx_io.io import ImageDetRecordIter, ImageRecordIter, ImageSourceIter
from mx_io.pipeline import Example, ImageSamples, Source
from mx_ndarray import nd

pytestmark = pytest.mark.timeout(60)


class Numbers(Source):
    """Ten images whose pixels are their number; the fourth cannot be read."""

    def __len__(self) -> int:
        return 10

    def read(self, positions: Sequence[int]) -> list[Example]:
        if 3 in positions:
            raise ValueError("it is torn")
        return [Example(np.full((6, 5, 3), i, np.uint8), float(i), i) for i in positions]


def made(**more: Any) -> ImageSourceIter:
    return ImageSourceIter(
        Numbers(), **{"data_shape": (3, 6, 5), "batch_size": 4, "on_error": "skip", **more}
    )


@pytest.mark.parametrize("dtype", ["float32", "uint8", "float16", "bfloat16"])
@pytest.mark.parametrize("round_batch", [False, True])
def test_batches_are_those_of_cpu_memory(dtype, round_batch):
    place = cpu_pinned(2)
    pinned = made(
        dtype=dtype,
        round_batch=round_batch,
        ctx="cpu_pinned",
        device_id=2,
        scale=0.5 if dtype != "uint8" else 1,
    )
    plain = made(dtype=dtype, round_batch=round_batch, scale=0.5 if dtype != "uint8" else 1)
    for _ in range(2):
        for ours, other in zip(pinned, plain, strict=True):
            (x,), (y,), (a,), (b,) = ours.data, ours.label, other.data, other.label
            assert x.context == y.context == place and a.context == b.context == cpu(0)
            assert x.dtype == a.dtype and ours.pad == other.pad and np.array_equal(ours.index, other.index)
            assert np.array_equal(x.astype("float32").asnumpy(), a.astype("float32").asnumpy())
            assert np.array_equal(y.asnumpy(), b.asnumpy())
        pinned.reset()
        plain.reset()


@pytest.mark.long
def test_memory_is_of_the_storage_manager_bounded_and_given_back():
    place, size = cpu_pinned(3), 4 * 4 * 3 * 6 * 5

    def in_use() -> int:
        gc.collect()
        nd.waitall()
        return int(services.storage("cpu_pinned").stats(place).bytes_in_use)

    assert in_use() == 0
    batches = made(ctx="cpu_pinned", device_id=3, prefetch_buffer=2)
    kept = batches.next()
    assert 3 * size <= in_use() <= 3 * size + 3 * 64
    for _ in range(5):
        list(batches)
        batches.reset()
    assert 3 * size <= in_use() <= 3 * size + 3 * 64
    values = kept.data[0].asnumpy()
    assert values[:, 0, 0, 0].tolist() == [0, 1, 2, 0]
    kept.data[0] += 1  # as on any array
    assert kept.data[0].asnumpy()[:, 0, 0, 0].tolist() == [1, 2, 3, 1]
    batches.close()
    del batches, kept
    assert in_use() == 0


def test_records_and_boxes(tmp_path):
    path = tmp_path / "a.rec"
    with recordio.MXRecordIO(path, "w") as record:
        for i in range(4):
            label = [2, 5, i, 0.1, 0.1, 0.9, 0.9]
            image = codecs.encode(np.full((8, 8, 3), 20 * i, np.uint8), ".jpg", 95)
            record.write(recordio.pack(recordio.IRHeader(0, label, i, 0), image))
    given = {"path_imgrec": str(path), "data_shape": (3, 8, 8), "batch_size": 4}
    for kind, more in ((ImageRecordIter, {"label_width": 7}), (ImageDetRecordIter, {})):
        (ours,), (other,) = (list(kind(**given, **more, ctx=ctx)) for ctx in ("cpu_pinned", "cpu"))
        assert ours.data[0].context == ours.label[0].context == cpu_pinned(0)
        assert np.array_equal(ours.data[0].asnumpy(), other.data[0].asnumpy())
        assert np.array_equal(ours.label[0].asnumpy(), other.label[0].asnumpy())


def test_a_loader_pins_by_itself():
    with pytest.raises(
        ArgumentError, match=r"\[ImageSamples\] ctx: expected cpu or gpu, got 'cpu_pinned'.*pin_memory"
    ):
        ImageSamples(Numbers(), data_shape=(3, 6, 5), ctx="cpu_pinned")
