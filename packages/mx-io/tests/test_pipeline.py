# SPDX-License-Identifier: Apache-2.0
"""Sources and augmenters of strangers get threads, order, parts, prefetch and errors that name the example."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mx_core.errors import ArgumentError, DTypeError, FileFormatError, MXNetError, ShapeError
from mx_io import codecs, image, recordio
from mx_io.im2rec import ListEntry, write_list
from mx_io.io import ImageRecordInt8Iter, ImageRecordIter, ImageRecordUInt8Iter, ImageSourceIter
from mx_io.pipeline import Example, FolderSource, ListSource, Part, RecordSource, Source
from mx_ndarray import nd

pytestmark = pytest.mark.timeout(60)


class Numbers(Source):
    """Images whose pixels are their number; some cannot be read."""

    def __init__(self, count: int, bad: Sequence[int] = (), encoded: bool = False) -> None:
        self.count, self.bad, self.encoded = count, set(bad), encoded
        self.threads: set[int] = set()

    def __len__(self) -> int:
        return self.count

    def read(self, positions: Sequence[int]) -> list[Example]:
        self.threads.add(threading.get_ident())
        if self.bad.intersection(positions):
            raise FileFormatError("it is torn")
        pixels = [np.full((4, 5, 3), position % 256, np.uint8) for position in positions]
        data: list[Any] = [codecs.encode(each, ".png") for each in pixels] if self.encoded else pixels
        return [Example(each, 10.0 * i, i) for i, each in zip(positions, data, strict=True)]


def made(source: Source, **more: Any) -> ImageSourceIter:
    return ImageSourceIter(source, **{"data_shape": (3, 4, 5), "batch_size": 4, **more})


def numbers(batches: Any) -> list[int]:
    """Of the examples that count."""
    return [int(i) for batch in batches for i in batch.index[: len(batch.index) - batch.pad]]


def test_a_source_of_a_stranger_is_read_by_threads_in_order():
    source = Numbers(40, encoded=True)
    found = list(made(source, preprocess_threads=3))
    assert numbers(found) == list(range(40)) and len(source.threads) > 1
    pixels = np.concatenate([batch.data[0].asnumpy() for batch in found])
    labels = np.concatenate([batch.label[0].asnumpy() for batch in found])
    assert (pixels == np.arange(40)[:, None, None, None]).all() and np.array_equal(labels, np.arange(40) * 10)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 40),
    st.integers(1, 6),
    st.integers(1, 7),
    st.integers(1, 4),
    st.booleans(),
    st.integers(0, 99),
)
def test_every_example_comes_once_an_epoch(count, parts, batch, threads, shuffle, seed):
    def epoch(part: int, threads: int, rounds: int) -> list[int]:
        source = Numbers(count)
        if len(Part(source, part, parts)) == 0:
            return []
        batches = made(source, batch_size=batch, num_parts=parts, part_index=part, shuffle=shuffle, seed=seed,
                       preprocess_threads=threads, round_batch=False)  # fmt: skip
        for _ in range(rounds):
            list(batches)
            batches.reset()
        found = numbers(batches)
        batches.close()
        return found

    for rounds in range(2):
        found = [epoch(part, threads, rounds) for part in range(parts)]
        assert sorted(number for part in found for number in part) == list(range(count))
        assert found[0] == epoch(0, 1, rounds)


def test_errors_name_the_example_and_come_again_until_reset():
    batches = made(Numbers(9, bad=[5]))
    batches.next()
    for _ in range(2):
        with pytest.raises(FileFormatError, match=r"^\[ImageSourceIter\] example 5: it is torn$"):
            batches.next()
    batches.reset()
    assert batches.next().index.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("round_batch", [False, True])
def test_examples_that_cannot_be_read_are_skipped_and_counted(round_batch, caplog):
    batches = made(Numbers(11, bad=[0, 1, 2, 3, 6, 10]), on_error="skip", round_batch=round_batch)
    found = list(batches)
    assert numbers(found) == [4, 5, 7, 8, 9]
    first = found[0]
    assert first.pad == 1 and first.data[0].asnumpy()[:, 0, 0, 0].tolist() == [4, 5, 7, 0]
    assert first.label[0].asnumpy().tolist() == [40, 50, 70, 0]
    assert batches.skipped == 6 and str(batches.errors[-1]) == "[ImageSourceIter] example 10: it is torn"
    assert "skipping [ImageSourceIter] example 6: it is torn" in caplog.text
    batches.reset()
    list(batches)
    assert batches.skipped >= 11


def test_where_nothing_can_be_read_it_is_an_error():
    batches = made(Numbers(5, bad=range(5)), on_error="skip")
    with pytest.raises(
        FileFormatError, match="expected an example that can be read, got none of 5; the last error: .*torn"
    ):
        batches.next()
    with pytest.raises(ArgumentError, match="on_error"):
        made(Numbers(5), on_error="ignore")


def test_what_breaks_the_contract_is_named():
    class Short(Numbers):
        def read(self, positions):
            return []

    class Raises(Numbers):
        def read(self, positions):
            raise KeyError("x")

    class Wide(Numbers):
        def read(self, positions):
            return [Example(np.zeros((4, 5, 3)), 0.0) for _ in positions]

    class Lazy(Numbers):
        def read(self, positions):
            return (Example(b"") for _ in positions)

    class Keyed(Numbers):
        def key(self, position):
            return -1 - position

    with pytest.raises(
        MXNetError, match=r"Lazy\.read: expected \d examples, got a generator; the source breaks"
    ):
        made(Lazy(3)).next()
    with pytest.raises(
        MXNetError, match=r"example 0: Keyed\.key: expected 0 to 2\*\*64 - 1, got -1; the source"
    ):
        made(Keyed(3)).next()
    with pytest.raises(MXNetError, match=r"Short\.read: expected \d examples, got 0; the source breaks"):
        made(Short(3)).next()
    with pytest.raises(MXNetError, match=r"example 0: KeyError: 'x'"):
        made(Raises(3)).next()
    with pytest.raises(ShapeError, match="example 0: expected uint8 pixels of shape"):
        made(Wide(3)).next()
    with pytest.raises(DTypeError, match="source: expected a Source, got list"):
        made([1, 2])
    with pytest.raises(ArgumentError, match="expected examples in part 0 of 1, got none"):
        made(Numbers(0))
    with pytest.raises(ArgumentError, match="expected part_index < num_parts, got 2 of 2"):
        made(Numbers(3), part_index=2, num_parts=2)
    with pytest.raises(NotImplementedError, match="Source does not define __len__"):
        len(Source())
    with pytest.raises(FileFormatError, match=r"example 0: expected 2 labels \(label_width\), got 1"):
        made(Numbers(3), label_width=2).next()


def test_closing_ends_the_threads_in_mid_epoch():
    class Slow(Numbers):
        closed = False

        def read(self, positions):
            time.sleep(0.001)
            return super().read(positions)

        def close(self):
            self.closed = True

    source = Slow(1000)
    before = set(threading.enumerate())
    batches = made(source)
    batches.next()
    assert set(threading.enumerate()) - before
    batches.close()
    assert source.closed and not set(threading.enumerate()) - before


# ---- augmenters ----


class Brighter(image.Augmenter):
    """Adds to every pixel."""

    def __init__(self, amount: int = 1) -> None:
        super().__init__(amount=amount)
        self.amount = amount

    def apply(self, image):
        return image + np.uint8(self.amount)


class Drawn:
    """Draws a number from the generator of the example."""

    def seeded(self, image, generator):
        return np.full_like(image, generator.integers(256))


@pytest.fixture
def packed(tmp_path) -> dict[str, Any]:
    path = tmp_path / "seven.rec"
    with recordio.MXIndexedRecordIO(tmp_path / "seven.idx", path, "w") as record:
        for i in range(7):
            pixels = np.full((6, 7, 3), 10 * i, np.uint8)
            record.write_idx(i, recordio.pack_img(recordio.IRHeader(0, float(i), i, 0), pixels, 1, ".png"))
    return {"path_imgrec": str(path), "data_shape": (3, 4, 5), "batch_size": 7}


def test_an_augmenter_of_a_stranger_runs_before_and_after_the_native_steps(packed):
    def first(**more):
        return ImageRecordIter(**packed, **more).next().data[0].asnumpy()

    plain = first()
    assert np.array_equal(first(aug_seq=[Brighter(3), "aug_default"]), plain + 3)
    assert np.array_equal(
        first(aug_seq=["aug_default", Brighter(3)], scale=0.5, mean_r=1, mean_g=1, mean_b=1), (plain + 2) / 2
    )
    assert np.array_equal(
        first(aug_seq="CastAug, aug_default"), plain
    )  # of the hook; floating-point is rounded
    cropped = first(aug_seq=[image.CenterCropAug((5, 4))])
    assert np.array_equal(cropped, plain)
    mirrored = first(
        aug_seq=["aug_default", lambda pixels: nd.array(pixels, dtype="uint8")], rand_mirror=True, seed=4
    )
    assert np.array_equal(mirrored, plain)


def test_random_numbers_of_augmenters_depend_on_seed_pass_and_record_alone(packed):
    def epochs(**more):
        batches = ImageRecordIter(**packed, aug_seq=[Drawn(), "aug_default"], **more)
        found = []
        for _ in range(2):
            found.append(np.concatenate([batch.data[0].asnumpy()[:, 0, 0, 0] for batch in batches]).tolist())
            batches.reset()
        return found

    one = epochs(preprocess_threads=1)
    assert one == epochs(preprocess_threads=4) != epochs(seed=1) and one[0] != one[1]
    assert len(set(one[0])) > 3
    shuffled = ImageRecordIter(**packed, aug_seq=[Drawn(), "aug_default"], shuffle=True).next()
    assert [one[0][int(i)] for i in shuffled.index] == shuffled.data[0].asnumpy()[:, 0, 0, 0].tolist()


def test_bad_augmenters_are_explained(packed):
    def broken(pixels):
        raise ZeroDivisionError("by zero")

    for steps, kind, message in (
        (
            ["aug_default", broken],
            MXNetError,
            r"seven\.rec: record 0 at byte 0: \[function\] ZeroDivisionError: by zero",
        ),
        (
            [lambda pixels: pixels[:, :, 0]],
            ShapeError,
            r"expected an image \(height, width, channels\), got shape \(6, 7\)",
        ),
        (
            [Brighter()],
            ShapeError,
            r"expected aug_seq to give \(channels, height, width\) \(3, 4, 5\), got \(3, 6, 7\)",
        ),
    ):
        with pytest.raises(kind, match=message):
            ImageRecordIter(**packed, aug_seq=steps).next()
    for steps, message in (
        ("Brightr", "aug_seq: expected some of aug_default, .*, got 'Brightr'"),
        ([3], "expected augmenters or their names, got 3"),
        ("aug_default,aug_default", "expected 'aug_default' once, got it 2 times"),
        ("ResizeAug", "'ResizeAug' needs parameters .*size.*; give the augmenter itself in a list"),
    ):
        with pytest.raises(ArgumentError, match=message):
            ImageRecordIter(**packed, aug_seq=steps)


# ---- sources of this package ----


def _folder(path: Path) -> Path:
    for kind in ("cat", "dog"):
        (path / kind).mkdir()
        for i in range(3):
            pixels = np.full((4, 5, 3), i + 100 * (kind == "dog"), np.uint8)
            (path / kind / f"{i}.png").write_bytes(codecs.encode(pixels, ".png"))
    return path


def test_folders_and_lists_of_images(tmp_path):
    found = list(made(FolderSource(_folder(tmp_path)), batch_size=6))
    assert found[0].label[0].asnumpy().tolist() == [0, 0, 0, 1, 1, 1]
    assert found[0].data[0].asnumpy()[:, 0, 0, 0].tolist() == [0, 1, 2, 100, 101, 102]
    entries = [ListEntry(7, (3.0, 4.0), "dog/1.png"), ListEntry(8, (5.0, 6.0), "cat/none.png")]
    listed = write_list(tmp_path / "a.lst", entries)
    batches = made(ListSource(listed, tmp_path), label_width=2, on_error="skip", batch_size=2)
    batch = batches.next()
    assert batch.label[0].asnumpy().tolist() == [[3, 4], [0, 0]] and (batch.pad, batches.skipped) == (1, 1)
    with pytest.raises(MXNetError, match=r"none\.png: .*No such file"):
        list(made(ListSource(listed, tmp_path), label_width=2))
    with pytest.raises(ArgumentError, match="expected images, got none"):
        ListSource([], tmp_path)


def test_records_as_a_source(packed):
    source = RecordSource(packed["path_imgrec"])
    assert numbers(made(source, shuffle=True, seed=2)) == numbers(
        ImageRecordIter(**packed | {"batch_size": 4}, shuffle=True, seed=2)
    )
    assert numbers(
        made(RecordSource(packed["path_imgrec"]), num_parts=3, part_index=1, round_batch=False)
    ) == [2, 3]


# ---- damage ----


def test_damaged_records_are_skipped(packed, tmp_path):
    content = bytearray(Path(packed["path_imgrec"]).read_bytes())
    offsets = recordio.MXRecordIO(packed["path_imgrec"], "r").offsets()
    content[offsets[2]] ^= 1  # no magic
    content[offsets[4] + 40] ^= 255  # no image
    (tmp_path / "torn.rec").write_bytes(content[:-5])
    torn = packed | {"path_imgrec": str(tmp_path / "torn.rec")}
    with pytest.raises(FileFormatError, match="the record magic"):
        ImageRecordIter(**torn)
    batches = ImageRecordIter(**torn, on_error="skip")
    assert numbers(batches) == [0, 1, 3, 5] and batches.skipped == 1
    assert [damage[:2] for damage in batches._source.damages] == [
        (offsets[2], offsets[3]), (offsets[6], len(content) - 5),
    ]  # fmt: skip
    indexed = ImageRecordIter(
        **torn, path_imgidx=packed["path_imgrec"].replace(".rec", ".idx"), on_error="skip"
    )
    assert numbers(indexed) == [0, 1, 3, 5] and indexed.skipped == 3


# ---- parameters ----


def test_signed_bytes_end_at_127(packed):
    for batches in (ImageRecordInt8Iter(**packed), ImageRecordIter(**packed, dtype="int8")):
        assert batches.provide_data[0].dtype == np.int8
        batch = batches.next().data[0]
        expected = ImageRecordUInt8Iter(**packed).next().data[0].asnumpy().clip(0, 127)
        assert batch.dtype == np.int8 and np.array_equal(batch.asnumpy(), expected)
    assert expected.max() == 60
    bright = ImageRecordInt8Iter(**packed, aug_seq=["aug_default", Brighter(100)]).next().data[0].asnumpy()
    assert bright[:, 0, 0, 0].tolist() == [100, 110, 120, 127, 127, 127, 127]


def _gradients(path: Path, count: int = 5) -> dict[str, Any]:
    generator = np.random.default_rng(0)
    with recordio.MXRecordIO(path, "w") as record:
        for i in range(count):
            pixels = generator.integers(0, 256, (4, 5, 3), np.uint8)
            record.write(recordio.pack_img(recordio.IRHeader(0, float(i), i, 0), pixels, 1, ".png"))
    return {"path_imgrec": str(path), "data_shape": (3, 4, 5), "batch_size": 2}


def test_the_mean_image_is_computed_written_read_and_mirrored(tmp_path):
    given = _gradients(tmp_path / "a.rec")
    name = tmp_path / "mean.bin"
    plain = [batch.data[0].asnumpy() for batch in ImageRecordIter(**given)]
    mean = np.concatenate(plain)[:5].mean(0)
    first = ImageRecordIter(**given, mean_img=str(name), scale=0.5).next().data[0].asnumpy()
    saved = nd.load(str(name))
    assert list(saved) == ["mean_img"] and np.abs(saved["mean_img"].asnumpy() - mean).max() < 1e-4
    assert np.abs(first - (plain[0] - mean) / 2).max() < 1e-4
    nd.save(str(name), {"mean_img": nd.array(mean + 1)})
    again = (
        ImageRecordIter(**given, mean_img=str(name), mirror=True, std_r=2, mean_r=50).next().data[0].asnumpy()
    )
    expected = ((plain[0] - mean - 1) / np.array([2, 1, 1])[:, None, None])[..., ::-1]
    assert np.abs(again - expected).max() < 1e-4  # mean_r gives way
    with pytest.raises(
        FileFormatError, match=r"expected an array 'mean_img' of shape \(3, 2, 2\), got one of shape"
    ):
        ImageRecordIter(**given | {"data_shape": (3, 2, 2)}, mean_img=str(name))
    nd.save(str(name), {"other": nd.array(mean)})
    with pytest.raises(FileFormatError, match=r"got none; delete the file"):
        ImageRecordIter(**given, mean_img=str(name))


def test_a_mean_image_of_no_image_is_refused(tmp_path):
    source = Numbers(3, bad=range(3))
    with pytest.raises(MXNetError, match=r"mean\.bin: expected an image that can be read, got none of 3"):
        made(source, mean_img=str(tmp_path / "mean.bin"), on_error="skip")
    assert not os.path.exists(tmp_path / "mean.bin")


# ---- decoding at a smaller scale ----


def _photograph(height: int, width: int, orientation: int = 1) -> bytes:
    y, x = np.mgrid[:height, :width]
    pixels = np.stack([255 * y / height, 255 * x / width, 127 + 60 * np.sin(x / 30) * np.cos(y / 20)], 2)
    data = codecs.encode(pixels.astype(np.uint8), ".jpg", 95)
    if orientation == 1:
        return data
    tiff = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0" + bytes([orientation]) + b"\0\0\0\0\0\0"
    block = b"Exif\0\0" + tiff
    return data[:2] + b"\xff\xe1" + (len(block) + 2).to_bytes(2, "big") + block + data[2:]


@pytest.mark.parametrize(
    ("scale", "shape"),
    [(1.0, (200, 301)), (0.51, (200, 301)), (0.5, (100, 151)), (0.2, (50, 76)), (0.01, (25, 38))],
)
def test_jpeg_is_decoded_at_the_least_scale_that_will_do(scale, shape):
    asked = []
    whole = codecs.decode(_photograph(200, 301))
    small = codecs.decode(_photograph(200, 301), 1, lambda *size: asked.append(size) or scale)
    assert small.shape[:2] == shape and asked == [(200, 301)]
    expected = image.imresize(whole, shape[1], shape[0], 3).asnumpy().astype(int)
    assert np.abs(small - expected).mean() < 3
    turned = codecs.decode(_photograph(200, 301, 6), 1, lambda *size: asked.append(size) or scale)
    assert turned.shape[:2] == shape[::-1] and asked[-1] == (301, 200)
    assert codecs.decode(codecs.encode(whole, ".png"), 1, lambda *size: scale).shape == whole.shape


@pytest.mark.parametrize(
    "more",
    [
        {"resize": 40},
        {"random_resized_crop": True, "min_random_area": 0.3, "max_aspect_ratio": 0.3, "rand_mirror": True},
        {"random_resized_crop": True, "min_random_area": 0.9, "brightness": 0.2},
        {"rand_crop": True},
        {"resize": 60, "max_rotate_angle": 20},
    ],
)
def test_augmentation_of_images_at_a_smaller_scale_gives_nearly_the_same(tmp_path, more):
    class Photographs(Source):
        def __len__(self):
            return 8

        def read(self, positions):
            return [Example(_photograph(300 + 20 * i, 400 - 15 * i), i) for i in positions]

    def first(scaled: bool) -> np.ndarray:
        batches = ImageSourceIter(
            Photographs(),
            data_shape=(3, 32, 32),
            batch_size=8,
            scaled_decoding=scaled,
            inter_method=3,
            **more,
        )
        return batches.next().data[0].asnumpy()

    whole, small = first(False), first(True)
    assert np.abs(whole - small).mean() < 4
    if "rand_crop" in more:
        assert np.array_equal(whole, small)


def test_records_of_mxnet_still_give_the_same(tmp_path):
    """Scaled decoding is off unless asked for."""
    data = Path(__file__).parent / "data"
    given = {"path_imgrec": str(data / "images.rec"), "data_shape": (3, 8, 8), "batch_size": 8, "resize": 8}
    random.seed(0)
    whole = ImageRecordIter(**given).next().data[0].asnumpy()
    assert np.array_equal(whole, ImageRecordIter(**given, scaled_decoding=False).next().data[0].asnumpy())
    assert json.dumps(whole.shape) == "[8, 3, 8, 8]"
