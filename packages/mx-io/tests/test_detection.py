# SPDX-License-Identifier: Apache-2.0
"""`ImageDetIter` and the augmenters of detection, against what MXNet 1.9.1 does and against their rules."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mx_core.errors import ArgumentError, DTypeError, FileFormatError, MXNetError, ShapeError
from mx_io import codecs, image, recordio
from mx_io.image.detection import labels
from mx_io.io import ImageDetRecordIter
from mx_io.pipeline import RecordSource
from mx_ndarray import nd
from testkit.oracle import ORACLE

RECORDED = json.loads((ORACLE / "io" / "detection.json").read_text())
FILES = {
    name: str(ORACLE / "io" / f"objects{suffix}")
    for name, suffix in (("path_imgrec", ".rec"), ("path_imgidx", ".idx"))
}
pytestmark = pytest.mark.timeout(60)


def made(**given) -> image.ImageDetIter:
    return image.ImageDetIter(**{"batch_size": 2, "data_shape": (3, 12, 16), **FILES, **given})


def check(source, recorded, tolerance: float) -> None:
    assert [[name, list(shape)] for name, shape in source.provide_data + source.provide_label] == recorded[
        "described"
    ]
    batches = list(source)
    assert len(batches) == len(recorded["batches"])
    for batch, expected in zip(batches, recorded["batches"], strict=True):
        assert batch.pad == expected["pad"]
        # Without round_batch MXNet leaves old labels in the places that do not count.
        counted = 0 if recorded["settings"].get("round_batch", True) else batch.pad
        labels = np.array(expected["label"], np.float32)
        assert np.array_equal(
            batch.label[0].asnumpy()[: len(labels) - counted], labels[: len(labels) - counted]
        )
        if "data" in expected:
            assert np.abs(batch.data[0].asnumpy() - np.array(expected["data"])).max() <= tolerance


@pytest.mark.parametrize("recorded", RECORDED["iterators"], ids=lambda recorded: str(recorded["settings"]))
def test_batches_are_mxnets(recorded):
    resized = recorded["settings"]["data_shape"] != [3, 12, 16]
    source = made(**recorded["settings"])
    assert list(source.label_shape) == recorded["label_shape"]
    check(source, recorded, 1.001 if resized else 1e-3)  # pixels that are resized may differ by one


@pytest.mark.parametrize(
    "recorded", RECORDED["record_iterators"], ids=lambda recorded: str(recorded["settings"])
)
def test_batches_of_records_are_mxnets(recorded):
    resized = recorded["settings"]["data_shape"] != [3, 12, 16]
    source = ImageDetRecordIter(path_imgrec=FILES["path_imgrec"], **recorded["settings"])
    check(source, recorded, 1.001 if resized else 1e-3)
    source.reset()
    assert [len(list(source)), [batch["pad"] for batch in recorded["batches"]]] == recorded["second"]


@pytest.mark.parametrize(("given", "expected"), RECORDED["lists"])
def test_lists_of_augmenters_are_mxnets(given, expected):
    given = {name: tuple(value) if name == "area_range" else value for name, value in given.items()}
    assert [augmenter.dumps() for augmenter in image.CreateDetAugmenter((3, 8, 10), **given)] == expected


@pytest.mark.parametrize(("given", "expected"), RECORDED["crops"])
def test_choices_of_crops_are_mxnets(given, expected):
    given = {name: [tuple(each) if isinstance(each, list) else each for each in value] if isinstance(value, list)
             else value for name, value in given.items()}  # fmt: skip
    assert image.CreateMultiRandCropAugmenter(**given).dumps() == expected


def packed(path: Path, *rows) -> dict[str, str]:
    pixels = np.zeros((12, 16, 3), np.uint8)
    with recordio.MXIndexedRecordIO(path / "a.idx", path / "a.rec", "w") as record:
        for i, row in enumerate(rows):
            record.write_idx(i, recordio.pack_img(recordio.IRHeader(0, row, i, 0), pixels, 1, ".png"))
    return {"path_imgrec": str(path / "a.rec"), "path_imgidx": str(path / "a.idx")}


@pytest.mark.parametrize("name", RECORDED["rows"])
def test_labels_are_read_and_refused_as_in_mxnet(tmp_path, name):
    recorded = RECORDED["rows"][name]
    files = packed(tmp_path, recorded["row"])
    if recorded["refused"]:
        with pytest.raises(FileFormatError, match=r"\[ImageDetIter\] label: expected .*; image 0"):
            made(batch_size=1, **files)
    else:
        batches = [batch.label[0].asnumpy().tolist() for batch in made(batch_size=1, **files)]
        assert batches == recorded["labels"]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(width=32), max_size=20))
def test_no_row_of_numbers_breaks_the_reader_of_labels(row):
    try:
        objects = labels.parse(np.array(row, np.float32))
    except FileFormatError:
        return
    assert len(objects) and objects.shape[1] >= 5 and labels.with_area(objects).all()


@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_objects_without_finite_numbers_are_left_out(tmp_path, place, value):
    torn = np.array([1, 0.2, 0.2, 0.7, 0.7], np.float32)
    torn[place] = value
    files = packed(tmp_path, [2, 5, *torn, 3, 0.1, 0.1, 0.9, 0.9])
    (batch,) = ImageDetRecordIter(
        **files, data_shape=(3, 8, 8), batch_size=1, rand_mirror_prob=1, rand_pad_prob=1
    )
    found = batch.label[0].asnumpy()
    assert np.isfinite(found).all() and found[0, 3] == 2 + 5 and found[0, 6] == 3
    assert len(list(made(batch_size=1, **files).draw_next())) == 1


def test_label_of_a_list_file_and_objects_of_several_widths(tmp_path):
    files = packed(tmp_path, [2, 5, 0, 0, 0, 1, 1], [2, 6, 1, 0, 0, 1, 1, 9, 2, 0, 0, 1, 1, 8])
    assert made(**files).next().label[0].asnumpy().tolist() == [
        [[0, 0, 0, 1, 1, -1], [-1] * 6], [[1, 0, 0, 1, 1, 9], [2, 0, 0, 1, 1, 8]],
    ]  # fmt: skip
    listed = tmp_path / "a.lst"
    listed.write_text("0\t2\t5\t3\t0\t0\t0.5\t0.5\tx\n1\t2\t5\t4\t0\t0\t0.5\t0.5\tx\n")
    source = made(**files, path_imglist=str(listed))
    assert source.next().label[0].asnumpy()[:, 0].tolist() == [[3, 0, 0, 0.5, 0.5], [4, 0, 0, 0.5, 0.5]]


def test_shapes_of_labels_grow_and_are_synchronised():
    source, refused = made(), []
    for shape in ((3,), (2, 5), (5, 4), (5, 6)):
        with pytest.raises(ShapeError, match="label_shape: expected"):
            source.reshape(None, shape)
        refused.append(list(shape))
    assert refused == RECORDED["shapes"]["refused"]
    source.reshape(None, (6, 5))
    other = made()
    assert source.sync_label_shape(other) is other
    assert [list(source.label_shape), list(other.label_shape)] == RECORDED["shapes"]["synchronised"]
    assert other.next().label[0].shape == other.provide_label[0].shape == (2, 6, 5)
    with pytest.raises(DTypeError, match="expected an ImageDetIter, got int"):
        source.sync_label_shape(3)


def test_images_of_another_shape_after_reshape():
    source = made(last_batch_handle="roll_over")
    list(source)
    source.reshape((3, 5, 7))
    source.reset()
    assert source.next().data[0].shape == source.provide_data[0].shape == (2, 3, 5, 7)


def test_an_image_of_no_valid_class_is_skipped(tmp_path, caplog):
    rows = [[2, 5, kind, 0, 0, 1, 1] for kind in (0, -1, 2)]
    source = made(**packed(tmp_path, *rows), batch_size=2)
    assert source.next().label[0].asnumpy()[:, 0, 0].tolist() == [0, 2]
    assert "skipping image 1: [ImageDetIter] label: expected an object of a class of 0 or more" in caplog.text


def test_boxes_are_mirrored_with_the_image():
    label = np.array([[0, 0.1, 0.2, 0.3, 0.4, 9], [1, 0, 0, 1, 1, 8]], np.float32)
    pixels = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
    flipped, boxes = image.DetHorizontalFlipAug(1.0)(pixels, label)
    assert np.array_equal(flipped, pixels[:, ::-1]) and boxes.tolist() == RECORDED["flipped"]
    assert label[0, 1] == np.float32(0.1)
    same, boxes = image.DetHorizontalFlipAug(0.0)(nd.array(pixels), nd.array(label))
    assert np.array_equal(same.asnumpy(), pixels) and np.array_equal(boxes, label)


def places(height: int, width: int) -> np.ndarray:
    """An image whose pixels say where they are."""
    y, x = np.mgrid[:height, :width].astype(np.float32)
    return np.stack([y, x, np.full_like(y, 7)], 2)


boxes = st.lists(
    st.tuples(*[st.floats(0, 0.875, width=32)] * 2, *[st.floats(0.0625, 1, width=32)] * 2),
    min_size=1,
    max_size=4,
).map(
    lambda rows: np.array(
        [[i, x, y, min(1, x + w), min(1, y + h), 5] for i, (x, y, w, h) in enumerate(rows)], np.float32
    )
)


@settings(max_examples=100, deadline=None)
@given(
    boxes, st.integers(8, 60), st.integers(8, 60), st.floats(0.05, 0.9), st.floats(0.3, 3), st.floats(0, 0.9),
    st.floats(0, 0.9), st.integers(0, 2**32),
)  # fmt: skip
@example(np.array([[0, 0, 0, 1, 1, 5]], np.float32), 23, 32, 0.71875, 1.9375, 0.0, 0.0, 1)
def test_crops_keep_their_promises(label, height, width, area, ratio, covered, ejected, seed):
    random.seed(seed)
    augmenter = image.DetRandomCropAug(covered, (ratio, ratio * 1.2), (area, area + 0.1), ejected, 20)
    cut, left = augmenter(places(height, width), label)
    h, w = cut.shape[:2]
    if (h, w) == (height, width) and np.array_equal(left, label):
        return
    y, x = cut[0, 0, :2]
    assert np.array_equal(cut, places(height, width)[int(y) :][:h, int(x) :][:, :w])
    assert area * height * width <= h * w <= (area + 0.1) * height * width + 1e-6
    assert abs(w / h - ratio * 1.1) <= ratio * 0.1 + 0.5001 / h + 1e-6
    assert 1 <= len(left) <= len(label) and left[:, 1:5].min() >= 0 and left[:, 1:5].max() <= 1
    shown = []
    for row in label:
        (x0, x1), (y0, y1) = np.clip(row[[1, 3]] * width - x, 0, w), np.clip(row[[2, 4]] * height - y, 0, h)
        shown.append((x1 - x0) * (y1 - y0) / ((row[3] - row[1]) * (row[4] - row[2]) * width * height))
        if row[0] in left[:, 0]:
            (kept,) = left[left[:, 0] == row[0]]
            assert (
                np.abs(kept[1:5] - np.array([x0 / w, y0 / h, x1 / w, y1 / h])).max() < 1e-4 and kept[5] == 5
            )
    assert all(share < 1e-4 or share > covered - 1e-4 for share in shown)
    assert all(
        (share > ejected - 1e-4) if i in left[:, 0] else (share < ejected + 1e-4)
        for i, share in enumerate(shown)
    )


@settings(max_examples=50, deadline=None)
@given(boxes, st.integers(4, 40), st.integers(4, 40), st.floats(1.2, 4), st.integers(0, 2**32))
def test_padding_keeps_its_promises(label, height, width, area, seed):
    random.seed(seed)
    padded, moved = image.DetRandomPadAug((0.5, 2), (area - 0.1, area), 50, (1, 2, 3))(
        places(height, width), label
    )
    h, w = padded.shape[:2]
    y, x = (int(v) for v in np.argwhere(padded[:, :, 2] == 7)[0])
    assert np.array_equal(padded[y : y + height, x : x + width], places(height, width))
    around = padded[padded[:, :, 2] != 7]
    assert len(around) == h * w - height * width and (around == (1, 2, 3)).all()
    pixels = moved[:, 1:5] * (w, h, w, h) - (x, y, x, y)
    assert np.abs(pixels - label[:, 1:5] * (width, height, width, height)).max() < 1e-3
    assert np.array_equal(moved[:, (0, 5)], label[:, (0, 5)])


def test_crops_are_spread_as_in_mxnet():
    """The height is uniform for a drawn aspect ratio; these are means of 3,000 crops of MXNet's."""
    random.seed(1)
    whole = np.array([[0, 0, 0, 1, 1]], np.float32)
    for ratios, mean_area, mean_ratio in (((1, 1), 4380, 1.0), ((0.5, 2), 3576, 1.247)):
        augmenter = image.DetRandomCropAug(0, ratios, (0.1, 0.9), 0)
        sizes = [augmenter(places(100, 100), whole)[0].shape for _ in range(1000)]
        assert abs(np.mean([h * w for h, w, _ in sizes]) - mean_area) < 250
        assert abs(np.mean([w / h for h, w, _ in sizes]) - mean_ratio) < 0.06


def test_choices_and_their_probabilities():
    flip = image.DetHorizontalFlipAug(1.0)
    random.seed(0)
    some = image.DetRandomSelectAug(flip, 0.7)
    label = np.array([[0, 0, 0, 0.5, 1]], np.float32)
    share = np.mean([some(places(2, 2), label)[1][0, 1] == 0.5 for _ in range(1000)])
    assert abs(share - 0.3) < 0.05
    assert image.DetRandomSelectAug([])(3, label)[0] == 3
    with pytest.raises(ArgumentError, match="expected DetAugmenters, got CastAug"):
        image.DetRandomSelectAug([image.CastAug()])
    with pytest.raises(DTypeError, match="expected an Augmenter, got int"):
        image.DetBorrowAug(3)
    with pytest.raises(ArgumentError, match="expected lists of equal length, got 3 values"):
        image.CreateMultiRandCropAugmenter([0.1, 0.2], max_attempts=[1, 2, 3])
    with pytest.raises(NotImplementedError, match="DetAugmenter has neither apply nor __call__"):
        image.DetAugmenter()(places(2, 2), label)


@pytest.mark.parametrize("kind", [image.DetRandomCropAug, image.DetRandomPadAug])
def test_ranges_without_content_switch_off(kind, caplog):
    augmenter = kind(aspect_ratio_range=(2, 1))
    label = np.array([[0, 0, 0, 0.5, 1]], np.float32)
    pixels = places(9, 9)
    assert not augmenter.enabled and augmenter(pixels, label)[0] is pixels
    assert f"{kind.__name__} is switched off" in caplog.text


def test_pictures_with_boxes():
    source = made(batch_size=1)
    pictures = list(source.draw_next((255, 0, 0), 1, id2labels={0: "cat"}))
    assert len(pictures) == 5 and pictures[0].shape == (12, 16, 3)
    red = (pictures[3] == (255, 0, 0)).all(2)
    assert red[3, 4:8].all() and red[3:9, 4].all() and not red[5:7, 5:6].any()
    with pytest.raises(ArgumentError, match="waitKey: expected None, got 1: no window 'draw_next' is shown"):
        source.draw_next(waitKey=1)


def test_a_damaged_image_is_skipped(tmp_path, caplog):
    files = packed(tmp_path, [2, 5, 0, 0, 0, 1, 1], [2, 5, 1, 0, 0, 1, 1])
    content = Path(files["path_imgrec"]).read_bytes()
    Path(files["path_imgrec"]).write_bytes(content.replace(b"PNG", b"GNP", 1))
    assert made(**files, batch_size=1).next().label[0].asnumpy()[0, 0, 0] == 1
    assert "skipping image 0" in caplog.text


# ---- ImageDetRecordIter ----


def placed(path: Path, boxes, count: int = 12, size: tuple[int, int] = (40, 50)) -> str:
    """Records whose pixels say where they are."""
    y, x = np.mgrid[: size[0], : size[1]]
    pixels = np.stack([y * 5, x * 5, np.full_like(y, 7)], 2).astype(np.uint8)
    with recordio.MXRecordIO(path / "b.rec", "w") as record:
        for i in range(count):
            row = np.concatenate([[3, 5, 99], np.ravel(boxes)]).astype(np.float32)
            record.write(recordio.pack(recordio.IRHeader(0, row, i, 0), codecs.encode(pixels, ".png")))
    return str(path / "b.rec")


BOXES = [[1, 0.1, 0.2, 0.4, 0.5], [2, 0.5, 0.5, 0.9, 0.8]]


def examples(batch):
    """Image and objects of each example."""
    for data, row in zip(batch.data[0].asnumpy(), batch.label[0].asnumpy(), strict=True):
        channels, height, width, length = row[:4].astype(int)
        assert row[4:7].tolist() == [3, 5, 99] and (row[4 + length :] == -1).all()
        assert not data[:, height:].any() and not data[:, :, width:].any() and channels == 3
        yield data[:, :height, :width], row[7 : 4 + length].reshape(-1, 5)


SHRINK = {"data_shape": (3, 120, 150), "batch_size": 12, "resize_mode": "shrink", "preprocess_threads": 2}


@pytest.mark.parametrize("mode", ["center", "overlap"])
def test_crops_of_records_keep_their_promises(tmp_path, mode):
    path = placed(tmp_path, BOXES)
    batch = ImageDetRecordIter(
        path_imgrec=path, **SHRINK, rand_crop_prob=1, num_crop_sampler=2, min_crop_scales=(0.3, 0.5),
        max_crop_scales=(0.6, 0.9), min_crop_aspect_ratios=(0.5,), max_crop_aspect_ratios=(2,),
        min_crop_object_coverages=(0.6,), crop_emit_mode=mode, max_crop_trials=(200,),
    ).next()  # fmt: skip
    sizes = set()
    for data, objects in examples(batch):
        height, width = data.shape[1:]
        y, x = data[0, 0, 0] / 5, data[1, 0, 0] / 5
        sizes.add((height, width))
        assert 0.45 < width / height < 2.2 and 0.28 < np.sqrt(height * width / 2000) < 0.91
        assert len(objects) in (1, 2)
        for row in objects:
            whole = np.array(BOXES[int(row[0]) - 1][1:]) * (50, 40, 50, 40) - (x, y, x, y)
            cut = whole.clip(0, (width, height, width, height))
            assert np.abs(row[1:] * (width, height, width, height) - cut).max() < 1e-3
            share = (cut[2] - cut[0]) * (cut[3] - cut[1]) / ((whole[2] - whole[0]) * (whole[3] - whole[1]))
            middle = (whole[:2] + whole[2:]) / 2
            assert (
                share > 0.3
                if mode == "overlap"
                else (middle >= 0).all() and (middle <= (width, height)).all()
            )
    assert len(sizes) > 5


def test_padding_and_mirroring_of_records_keep_their_promises(tmp_path):
    path = placed(tmp_path, BOXES)
    batch = ImageDetRecordIter(
        path_imgrec=path, **SHRINK, rand_pad_prob=1, max_pad_scale=3, rand_mirror_prob=0.5, fill_value=9
    ).next()
    flips = 0
    for data, objects in examples(batch):
        inside = np.argwhere(data[2] == 7)
        (y, x), (lower, right) = inside.min(0), inside.max(0) + 1
        assert (lower - y, right - x) == (40, 50) and (data[:, 0, 0] == 9).all() == ((y, x) != (0, 0))
        mirrored = data[1, y, x] > data[1, y, right - 1]
        flips += mirrored
        for row, box in zip(objects, BOXES, strict=True):
            left, upper, end, low = box[1:]
            expected = np.array([1 - end, upper, 1 - left, low] if mirrored else box[1:]) * (50, 40, 50, 40)
            found = row[1:] * (data.shape[2], data.shape[1], data.shape[2], data.shape[1]) - (x, y, x, y)
            assert np.abs(found - expected).max() < 1e-3
    assert 0 < flips < 12


def test_colours_of_records_and_their_seeds(tmp_path):
    path = placed(tmp_path, BOXES)
    strong = {f"max_random_{kind}": 60 for kind in ("hue", "saturation", "illumination")} | {
        "max_random_contrast": 0.5
    }
    strong |= {f"random_{kind}_prob": 0.7 for kind in ("hue", "saturation", "illumination", "contrast")}

    def first(**more):
        return ImageDetRecordIter(path_imgrec=path, **SHRINK | more, **strong).next().data[0].asnumpy()

    plain = ImageDetRecordIter(path_imgrec=path, **SHRINK).next().data[0].asnumpy()
    one = first()
    assert np.array_equal(one, first(preprocess_threads=1)) and not np.array_equal(one, first(seed=1))
    assert (np.abs(one - plain).reshape(12, -1).max(1) > 5).sum() > 6


def test_bad_parameters_and_labels_of_records_are_explained(tmp_path):
    given = {"path_imgrec": placed(tmp_path, BOXES, 2), "data_shape": (3, 8, 8), "batch_size": 2}
    for more, message in (
        ({"label_pad_width": 12}, "label_pad_width: expected 13 or more, as the longest label has, got 12"),
        ({"min_crop_scales": (0.1, 0.2, 0.3), "num_crop_sampler": 2}, "expected 1 or 2 values .*, got 3"),
        ({"min_crop_scales": (1.5,)}, "expected min_crop_scales <= max_crop_scales, got 1.5 and 1.0"),
        ({"dtype": "int8"}, "dtype: expected float32"),
        ({"data_shape": (2, 8, 8)}, "data_shape: expected"),
        ({"rand_crop": True}, "cannot find argument 'rand_crop'"),
    ):
        with pytest.raises(ArgumentError, match=message):
            ImageDetRecordIter(**given | more)
    with pytest.raises(
        FileFormatError, match=r"record 0 at byte 0: expected 7 labels \(label_width\), got 13"
    ):
        ImageDetRecordIter(**given, label_width=7)
    packed(tmp_path, [2, 5, 0, 0, 0, 1, 1], [2, 5, 0, 0])
    bad = given | {"path_imgrec": str(tmp_path / "a.rec")}
    with pytest.raises(
        FileFormatError, match=r"a\.rec: record 1 at byte \d+: label: expected a head of 2 or more"
    ):
        ImageDetRecordIter(**bad).next()
    skipping = ImageDetRecordIter(**bad, on_error="skip")
    assert skipping.next().pad == 1 and skipping.skipped == 1


def test_a_label_that_is_skipped_does_not_count_for_the_width(tmp_path):
    good = [2, 5, 0, 0.1, 0.1, 0.6, 0.6]
    packed(tmp_path, good, good, np.zeros(5000), [2, 5, *good[2:] * 3], good)  # the third has no head
    given = {
        "path_imgrec": str(tmp_path / "a.rec"),
        "data_shape": (3, 8, 8),
        "batch_size": 2,
        "on_error": "skip",
    }
    for more, width, skipped in (
        ({}, 17, 1), ({"label_pad_width": 20}, 20, 1), ({"label_width": 7}, 7, 2),
        ({"label_width": 7, "label_pad_width": 9}, 9, 2),
    ):  # fmt: skip
        source = ImageDetRecordIter(**given, **more)
        assert source.provide_label[0].shape == (2, 4 + width)
        rows = np.concatenate([b.label[0].asnumpy()[: 2 - b.pad] for b in source])
        assert (len(rows), source.skipped) == (5 - skipped, skipped)
        np.testing.assert_allclose(rows[0, 4:11], good)
    with pytest.raises(ArgumentError, match="label_pad_width: expected 17 or more"):
        ImageDetRecordIter(**given, label_pad_width=16)


def test_a_record_that_cannot_be_read_costs_no_neighbours(tmp_path, monkeypatch):
    path = placed(tmp_path, BOXES, 3)
    whole = Path(path).read_bytes()
    with recordio.MXRecordIO(path, "w") as record:
        record.write(b"bad")
    Path(path).write_bytes(whole + Path(path).read_bytes())
    given = {"path_imgrec": path, "data_shape": (3, 8, 8), "batch_size": 3}
    with pytest.raises(FileFormatError, match=r"b\.rec: record 3 at byte \d+: .*header"):
        ImageDetRecordIter(**given)
    skipping = ImageDetRecordIter(**given, on_error="skip")
    assert skipping.provide_label[0].shape == (3, 4 + 13)
    assert [batch.pad for batch in skipping] == [0] and skipping.skipped == 1

    def read(self, positions, all_of=RecordSource.read):
        if 1 in positions:
            raise OSError(5, "Input/output error")
        return all_of(self, positions)

    monkeypatch.setattr(RecordSource, "read", read)
    with pytest.raises(MXNetError, match=r"b\.rec: record 1 at byte 236: .*Input/output error"):
        ImageDetRecordIter(**given)
    skipping = ImageDetRecordIter(**given, on_error="skip")
    assert [batch.pad for batch in skipping] == [1] and skipping.skipped == 2


def test_a_mean_image_of_records_with_boxes(tmp_path):
    given = {"path_imgrec": placed(tmp_path, BOXES, 4), "data_shape": (3, 8, 8), "batch_size": 4}
    plain = ImageDetRecordIter(**given).next().data[0].asnumpy()
    centred = ImageDetRecordIter(**given, mean_img=str(tmp_path / "mean.bin")).next().data[0].asnumpy()
    assert np.abs(centred - (plain - plain.mean(0))).max() < 1e-3
