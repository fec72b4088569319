# SPDX-License-Identifier: Apache-2.0
"""Images of a source as samples by index, and as batches that a loader asks for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from mx_core.errors import ArgumentError, DTypeError, FileFormatError, IndexOutOfBoundsError
from mx_io import codecs
from mx_io.io import ImageSourceIter
from mx_io.pipeline import Example, ImageSamples, Source

RANDOM = {"random_resized_crop": True, "min_random_area": 0.2, "rand_mirror": True, "scale": 0.5}


class Pictures(Source):
    """Files of noise, one of them damaged."""

    def __init__(self, damaged: int = -1) -> None:
        self.damaged = damaged

    def __len__(self) -> int:
        return 10

    def read(self, positions: Sequence[int]) -> list[Example]:
        return [
            Example(b"damaged" if i == self.damaged else _file(i), [float(i), 2.0 * i], 100 + i)
            for i in positions
        ]


def _file(number: int) -> bytes:
    pixels = np.random.default_rng(number).integers(0, 256, (30, 40, 3), np.uint8)
    return codecs.encode(pixels, (".jpg", ".png")[number % 2], 9)


def test_batches_are_those_of_the_iterator():
    source = ImageSourceIter(Pictures(), data_shape=(3, 16, 16), batch_size=5, label_width=2, **RANDOM)
    expected = source.next()
    samples = ImageSamples(Pictures(), data_shape=(3, 16, 16), label_width=2, **RANDOM)
    data, label = samples.batch([0, 1, 2, 3, 4], 2**32)  # of the first pass
    assert np.array_equal(data.asnumpy(), expected.data[0].asnumpy())
    assert np.array_equal(label.asnumpy(), expected.label[0].asnumpy())
    source.close()


def test_choices_depend_on_the_seed_and_the_position_alone():
    samples = ImageSamples(Pictures(), data_shape=(3, 16, 16), **RANDOM)
    first = samples.batch([3, 7], 5)[0].asnumpy()
    kept = samples.batch([3, 7], 5)[0]
    assert np.array_equal(samples.batch([7, 1, 3], 5)[0].asnumpy()[[2, 0]], first)
    assert not np.array_equal(samples.batch([3, 7], 6)[0].asnumpy(), first)
    assert np.array_equal(kept.asnumpy(), first)
    np.random.seed(4)
    drawn = samples.batch([3])[0].asnumpy()
    assert not np.array_equal(samples.batch([3])[0].asnumpy(), drawn)
    np.random.seed(4)
    assert np.array_equal(samples[3][0].asnumpy(), drawn[0])


def test_samples_by_index():
    samples = ImageSamples(Pictures(), data_shape=(3, 30, 40), dtype="uint8")
    assert len(samples) == 10
    data, label = samples[-1]
    assert np.array_equal(data.asnumpy().transpose(1, 2, 0), codecs.decode(_file(9))) and label == 9
    assert samples.batch([])[0].shape == (0, 3, 30, 40)
    assert samples.batch([0])[0].dtype == np.uint8
    for index in (10, -11):
        with pytest.raises(IndexOutOfBoundsError, match=f"index: expected -10 to 9, got {index}"):
            samples[index]


def test_what_is_wrong_is_told():
    with pytest.raises(FileFormatError, match=r"\[ImageSamples\] example 2: "):
        ImageSamples(Pictures(damaged=2), data_shape=(3, 8, 8)).batch([1, 2])
    with pytest.raises(ArgumentError, match="cannot find argument 'shuffle': the loader decides it"):
        ImageSamples(Pictures(), data_shape=(3, 8, 8), shuffle=True)
    with pytest.raises(ArgumentError, match="dtype: expected one of"):
        ImageSamples(Pictures(), data_shape=(3, 8, 8), dtype="int32")
    with pytest.raises(DTypeError, match="source: expected a Source, got int"):
        ImageSamples(3, data_shape=(3, 8, 8))
