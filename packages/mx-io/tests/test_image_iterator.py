# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from mx_core.errors import ArgumentError, ShapeError
from mx_io import codecs, image
from mx_io.im2rec import ListEntry, write_list

DATA = Path(__file__).parent / "data"


@pytest.fixture
def folder(tmp_path) -> Path:
    for i in range(7):
        (tmp_path / f"{i}.png").write_bytes(codecs.encode(np.full((6, 6, 3), i, np.uint8), ".png", 1))
    return tmp_path


def source(folder: Path, **more) -> image.ImageIter:
    files = [[float(i), f"{i}.png"] for i in range(7)]
    return image.ImageIter(3, (3, 4, 4), imglist=files, path_root=str(folder), **more)


def labels(batches) -> list[tuple[list[float], int]]:
    return [(batch.label[0].asnumpy().tolist(), batch.pad) for batch in batches]


def test_files_with_labels(folder):
    batch = source(folder).next()
    assert batch.data[0].asnumpy()[:, 2, 3, 3].tolist() == batch.label[0].asnumpy().tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("handle", "first", "second"),
    [
        ("pad", [([0, 1, 2], 0), ([3, 4, 5], 0), ([6, 0, 1], 2)], ([0, 1, 2], 0)),
        ("discard", [([0, 1, 2], 0), ([3, 4, 5], 0)], ([0, 1, 2], 0)),
        ("roll_over", [([0, 1, 2], 0), ([3, 4, 5], 0)], ([6, 0, 1], 0)),
    ],
)
def test_the_last_batch(folder, handle, first, second):
    batches = source(folder, last_batch_handle=handle)
    assert labels(batches) == first
    batches.reset()
    assert labels(batches)[0] == second
    batches.hard_reset()
    assert labels(batches)[0] == ([0, 1, 2], 0)


def test_record_files_with_and_without_index():
    for index in (None, str(DATA / "images.idx")):
        batches = image.ImageIter(
            8, (3, 16, 16), path_imgrec=str(DATA / "images.rec"), path_imgidx=index, num_parts=3, part_index=1
        )
        found = [label for values, pad in labels(batches) for label in values[: 8 - pad]]
        assert found == [i % 4 for i in range(13, 26)]


def test_a_list_file_and_several_labels(folder):
    write_list(folder / "x.lst", [ListEntry(i, (float(i), i + 0.5), f"{i}.png") for i in range(4)])
    batches = image.ImageIter(
        2, (1, 6, 6), 2, path_imglist=str(folder / "x.lst"), path_root=str(folder), dtype="float16"
    )
    batch = batches.next()
    assert batch.label[0].asnumpy().tolist() == [[0, 0.5], [1, 1.5]]
    assert batch.data[0].shape == (2, 1, 6, 6) and batch.data[0].dtype == np.float16


def test_damaged_images_are_skipped_and_named(folder, caplog):
    (folder / "1.png").write_bytes(b"damaged")
    assert labels(source(folder, last_batch_handle="discard")) == [([0, 2, 3], 0), ([4, 5, 6], 0)]
    assert "skipping image 1" in caplog.text


def test_shuffling_follows_the_seed(folder):
    def order() -> list[float]:
        random.seed(4)
        return labels(source(folder, shuffle=True))[0][0]

    assert order() == order() != [0, 1, 2]


def test_augmenters_must_give_the_shape(folder):
    with pytest.raises(ShapeError, match=r"expected augmenters to give \(3, 4, 4\), got \(3, 5, 5\)"):
        source(folder, aug_list=[image.CenterCropAug((5, 5))]).next()


def test_wrong_arguments_are_explained(folder):
    with pytest.raises(ShapeError, match=r"got \(2, 4, 4\)"):
        image.ImageIter(1, (2, 4, 4), imglist=[])
    with pytest.raises(ArgumentError, match="got none of them"):
        image.ImageIter(1, (3, 4, 4))
    with pytest.raises(ArgumentError, match="got 'drop'"):
        source(folder, last_batch_handle="drop")
    with pytest.raises(ArgumentError, match="got 3 of 3"):
        source(folder, part_index=3, num_parts=3)


def test_the_last_batch_of_few_images_goes_round_them(folder):
    files = [[float(i), f"{i}.png"] for i in range(2)]
    batches = image.ImageIter(5, (3, 4, 4), imglist=files, path_root=str(folder))
    assert labels(batches) == [([0, 1, 0, 1, 0], 3)]


class Once(image.ImageIter):
    """Images that can be read once."""

    def next_sample(self):
        self.read = getattr(self, "read", 0) + 1
        if self.read > 2:
            raise StopIteration
        self.cur = 0
        return super().next_sample()


def test_the_last_batch_of_what_is_read_once_goes_round_itself(folder):
    batches = Once(5, (3, 4, 4), imglist=[[7.0, "0.png"]], path_root=str(folder))
    assert labels(batches) == [([7] * 5, 3)]
