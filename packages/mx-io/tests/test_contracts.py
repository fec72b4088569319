# SPDX-License-Identifier: Apache-2.0
"""The contract suites of mx_core.testing over this package's codecs and iterators."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from mx_core import plugins
from mx_core.testing.codec import CodecContract
from mx_core.testing.data_iter import DataIterContract
from mx_io import io

DATA = Path(__file__).parent / "data"


class TestJpeg(CodecContract):
    tolerance = 12

    def make_codec(self):
        return plugins.registry("image_codecs").get("jpeg").value


class TestPng(CodecContract):
    def make_codec(self):
        return plugins.registry("image_codecs").get("png").value


class TestBmp(CodecContract):
    def make_codec(self):
        return plugins.registry("image_codecs").get("bmp").value


class TestNpy(CodecContract):
    def make_codec(self):
        return plugins.registry("image_codecs").get("npy").value


class TestNDArrayIter(DataIterContract):
    def make_iter(self):
        return io.NDArrayIter(np.arange(20).reshape(10, 2), np.arange(10), batch_size=4)


class TestResizeIter(DataIterContract):
    def make_iter(self):
        return io.ResizeIter(io.NDArrayIter(np.arange(6), np.arange(6), batch_size=2), 5)


class TestPrefetchingIter(DataIterContract):
    def make_iter(self):
        return io.PrefetchingIter(io.NDArrayIter(np.arange(6), np.arange(6), batch_size=2))


class TestImageRecordIter(DataIterContract):
    def make_iter(self):
        return io.ImageRecordIter(path_imgrec=str(DATA / "images.rec"), data_shape=(3, 16, 16), batch_size=8)


class TestShuffledImageRecordIter(DataIterContract):
    repeatable = False

    def make_iter(self):
        return io.ImageRecordIter(
            path_imgrec=str(DATA / "images.rec"), path_imgidx=str(DATA / "images.idx"), data_shape=(3, 16, 16),
            batch_size=8, shuffle=True, rand_crop=True, round_batch=False,
        )  # fmt: skip

    def test_iter_next_and_getters_agree_with_next(self):
        self.repeatable = True  # two new iterators with one seed give the same
        super().test_iter_next_and_getters_agree_with_next()


class TestCSVIter(DataIterContract):
    def make_iter(self):
        path = Path(tempfile.mkdtemp()) / "table.csv"
        np.savetxt(path, np.arange(24).reshape(12, 2), delimiter=",", fmt="%d")
        return io.CSVIter(data_csv=str(path), data_shape=(2,), batch_size=4)
