# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mx_core.errors import ArgumentError, FileFormatError
from mx_io import codecs, recordio
from mx_io.im2rec import ListEntry, write_list
from mx_io.io import ImageRecordIter, ImageRecordUInt8Iter

DATA = Path(__file__).parent / "data"
GOLDEN = {"path_imgrec": str(DATA / "images.rec"), "path_imgidx": str(DATA / "images.idx")}

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def numbered(tmp_path):
    """Seven records; all pixels of image i are i, its label is 10 i, its number 100 + i."""
    path = tmp_path / "seven.rec"
    with recordio.MXIndexedRecordIO(tmp_path / "seven.idx", path, "w") as record:
        for i in range(7):
            image = np.full((4, 5, 3), i, np.uint8)
            record.write_idx(
                100 + i, recordio.pack_img(recordio.IRHeader(0, 10.0 * i, 100 + i, 0), image, 1, ".png")
            )
    return {"path_imgrec": str(path), "data_shape": (3, 4, 5), "batch_size": 3}


def contents(source) -> list[tuple[list[int], int]]:
    return [(batch.label[0].asnumpy().astype(int).tolist(), batch.pad) for batch in source]


def pixels(source) -> np.ndarray:
    return np.concatenate([batch.data[0].asnumpy() for batch in source])


def test_round_batch_goes_on_behind_the_wrapped_examples(numbered):
    source = ImageRecordIter(**numbered)
    assert contents(source) == [([0, 10, 20], 0), ([30, 40, 50], 0), ([60, 0, 10], 2)]
    source.reset()
    assert contents(source) == [([20, 30, 40], 0), ([50, 60, 0], 1)]


def test_without_round_batch_the_tail_is_zero_and_counted(numbered):
    source = ImageRecordIter(**numbered, round_batch=False)
    for _ in range(2):
        *_, last = list(source)
        assert last.pad == 2 and last.label[0].asnumpy().tolist() == [60, 0, 0]
        assert not last.data[0].asnumpy()[1:].any() and (last.data[0].asnumpy()[0] == 6).all()
        assert last.index.tolist() == [106, 0, 0]
        source.reset()


def test_data_labels_and_numbers_belong_together(numbered):
    batch = ImageRecordIter(**numbered, shuffle=True, seed=4).next()
    assert np.array_equal(batch.data[0].asnumpy()[:, 0, 0, 0] * 10, batch.label[0].asnumpy())
    assert np.array_equal(batch.index - 100, batch.data[0].asnumpy()[:, 2, 3, 4])


def test_descriptions_have_mxnets_names_and_shapes(numbered):
    source = ImageRecordIter(**numbered)
    assert source.provide_data == [("data", (3, 3, 4, 5))]
    assert source.provide_label == [("softmax_label", (3,))]
    named = ImageRecordIter(**numbered, data_name="image", label_name="kind")
    assert (named.provide_data[0].name, named.provide_label[0].name) == ("image", "kind")
    assert source.provide_label[0].layout == "NCHW"


@pytest.mark.parametrize("state", [None, {}, {"position": None}, {"position": -3}, {"idx": 1}])
def test_the_state_of_something_else_is_refused_and_changes_nothing(numbered, state):
    source = ImageRecordIter(**numbered)
    source.next()
    with pytest.raises(ArgumentError, match=r"^\[ImageRecordIter\] state: "):
        source.load_state_dict(state)
    assert source.next().label[0].asnumpy().tolist() == [30, 40, 50]


def test_parameters_may_be_text(numbered):
    as_text = {name: str(value) for name, value in numbered.items()}
    assert contents(ImageRecordIter(**as_text, round_batch="False"))[-1] == ([60, 0, 0], 2)


def test_parts_follow_bytes_or_the_index(numbered):
    def counts(**more) -> list[int]:
        sources = [
            ImageRecordIter(**numbered, num_parts=3, part_index=i, round_batch=False, **more)
            for i in range(3)
        ]
        return [sum(3 - batch.pad for batch in source) for source in sources]

    assert counts() == [3, 2, 2]
    assert counts(path_imgidx=numbered["path_imgrec"].replace(".rec", ".idx")) == [3, 3, 1]


def test_normalisation_is_mean_then_deviation_then_scale(numbered):
    source = ImageRecordIter(**numbered, mean_r=1, mean_g=2, mean_b=3, std_g=4, scale=0.5)
    last = source.next().data[0].asnumpy()[2, :, 0, 0]
    assert last.tolist() == [0.5 * (2 - 1), 0.5 * (2 - 2) / 4, 0.5 * (2 - 3)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "uint8"])
def test_element_types(numbered, dtype):
    source = ImageRecordIter(**numbered, dtype=dtype)
    batch = source.next()
    assert batch.data[0].dtype == source.provide_data[0].dtype == np.dtype(dtype).type
    assert batch.data[0].asnumpy()[:, 0, 0, 0].tolist() == [0, 1, 2]


def test_uint8_iterator_gives_the_pixels(numbered):
    assert np.array_equal(pixels(ImageRecordUInt8Iter(**numbered))[:7, 1, 1, 1], np.arange(7))
    with pytest.raises(ArgumentError, match="cannot find argument 'mean_r'"):
        ImageRecordUInt8Iter(**numbered, mean_r=3)


def test_grey_and_transparent_images(numbered):
    shapes = {1: (1, 4, 5), 4: (4, 4, 5)}
    for channels, shape in shapes.items():
        found = pixels(ImageRecordIter(**numbered | {"data_shape": shape}))
        assert found.shape[1] == channels and found[3, 0, 0, 0] == 3
    assert (found[:, 3] == 255).all()


def test_golden_images_come_out_as_decoded(tmp_path):
    source = ImageRecordIter(**GOLDEN, data_shape=(3, 16, 16), batch_size=8)
    found = pixels(source)
    with recordio.MXIndexedRecordIO(DATA / "images.idx", DATA / "images.rec", "r") as record:
        for i, key in enumerate(record.keys):
            image = codecs.decode(recordio.unpack(record.read_idx(key))[1])
            y, x = (image.shape[0] - 16) // 2, (image.shape[1] - 16) // 2
            assert np.array_equal(found[i], image[y : y + 16, x : x + 16].transpose(2, 0, 1))


RANDOM = {
    "rand_crop": True, "rand_mirror": True, "resize": 24, "brightness": 0.3, "contrast": 0.3, "saturation": 0.3,
    "random_h": 20, "random_s": 20, "random_l": 20, "pca_noise": 0.1, "max_rotate_angle": 10, "max_shear_ratio": 0.1,
    "max_random_contrast": 0.2, "max_random_illumination": 5, "pad": 2, "inter_method": 10, "shuffle": True,
}  # fmt: skip


def test_threads_change_nothing_and_seeds_everything():
    def epochs(threads: int, **more) -> np.ndarray:
        source = ImageRecordIter(
            **GOLDEN,
            data_shape=(3, 20, 20),
            batch_size=7,
            preprocess_threads=threads,
            **RANDOM | {"seed": 3} | more,
        )
        first = pixels(source)
        source.reset()
        return np.concatenate([first, pixels(source)])

    once = epochs(1)
    assert np.array_equal(once, epochs(4)) and np.array_equal(once, epochs(3, prefetch_buffer=1))
    assert not np.array_equal(once, epochs(1, seed=4))
    assert not np.array_equal(once, epochs(1, seed_aug=5))
    assert np.array_equal(epochs(1, seed_aug=5), epochs(2, seed_aug=5))


RESIZED = {"random_resized_crop": True, "min_random_area": 0.1, "rand_mirror": True, "saturation": 0.2}


@settings(max_examples=15, deadline=None)
@given(
    st.none() | st.sets(st.sampled_from(sorted(RANDOM))), st.integers(0, 2**31), st.integers(1, 6), st.integers(1, 11),
    st.integers(1, 5), st.integers(1, 3), st.booleans(),
)  # fmt: skip
def test_the_seed_alone_decides_what_becomes_of_an_image(chosen, seed, threads, batch, depth, parts, shuffle):
    """Whatever the number of threads, the sizes of batches, how many are prepared and in how many parts."""
    options = RESIZED if chosen is None else {name: RANDOM[name] for name in chosen}
    options = options | {"seed": seed, "data_shape": (3, 12, 14), "round_batch": False}

    def epochs(**more) -> list[dict[int, bytes]]:
        source = ImageRecordIter(**GOLDEN, **options | more)
        found = []
        for _ in range(2):
            images: dict[int, bytes] = {}
            for each in source:
                count = len(each.index) - each.pad
                numbers, pixels = each.index[:count], each.data[0].asnumpy()[:count]
                images |= {int(n): image.tobytes() for n, image in zip(numbers, pixels, strict=True)}
            found.append(images)
            source.reset()
        source.close()
        return found

    expected = epochs(preprocess_threads=1, batch_size=40, prefetch_buffer=1, shuffle=False)
    assert [len(images) for images in expected] == [40, 40]
    more = {"preprocess_threads": threads, "batch_size": batch, "prefetch_buffer": depth, "shuffle": shuffle}
    found = [epochs(**more, num_parts=parts, part_index=part) for part in range(parts)]
    for epoch in range(2):
        assert sum(len(part[epoch]) for part in found) == 40
        assert {number: each[epoch][number] for each in found for number in each[epoch]} == expected[epoch]


def test_augmentation_differs_between_epochs():
    source = ImageRecordIter(**GOLDEN, data_shape=(3, 16, 16), batch_size=40, rand_crop=True)
    first = pixels(source)
    source.reset()
    assert not np.array_equal(first, pixels(source))


def test_random_resized_crop_excludes_other_geometry(numbered):
    source = ImageRecordIter(
        **numbered,
        random_resized_crop=True,
        min_random_area=0.2,
        min_aspect_ratio=0.75,
        max_aspect_ratio=1.33,
    )
    assert pixels(source).shape == (9, 3, 4, 5)
    for name, wrong in (("min_random_area", -0.5), ("min_random_area", 1.5), ("max_random_area", -0.5)):
        with pytest.raises(ArgumentError, match=name):
            ImageRecordIter(**numbered, random_resized_crop=True, **{name: wrong})
    with pytest.raises(ArgumentError, match="random_resized_crop excludes rand_crop"):
        ImageRecordIter(**numbered, random_resized_crop=True, rand_crop=True)


def test_several_labels(tmp_path):
    with recordio.MXRecordIO(tmp_path / "x.rec", "w") as record:
        for i in range(4):
            record.write(
                recordio.pack_img(recordio.IRHeader(0, [i, i + 0.5], i, 0), np.zeros((2, 2, 3), np.uint8))
            )
    common = {"path_imgrec": str(tmp_path / "x.rec"), "data_shape": (3, 2, 2), "batch_size": 2}
    source = ImageRecordIter(**common, label_width=2)
    assert source.provide_label == [("softmax_label", (2, 2))]
    assert source.next().label[0].asnumpy().tolist() == [[0, 0.5], [1, 1.5]]
    with pytest.raises(
        FileFormatError, match=r"record 0 at byte 0: expected 3 labels \(label_width\), got 2"
    ):
        ImageRecordIter(**common, label_width=3).next()


def test_a_list_file_replaces_the_labels(numbered, tmp_path):
    write_list(tmp_path / "x.lst", [ListEntry(100 + i, (float(-i),), "unused") for i in range(6)])
    source = ImageRecordIter(**numbered, path_imglist=str(tmp_path / "x.lst"))
    assert source.next().label[0].asnumpy().tolist() == [0, -1, -2]
    source.next()
    with pytest.raises(ArgumentError, match="record 6 at byte .*expected a line for number 106"):
        source.next()


def test_a_bad_image_is_named_again_and_again_until_reset(numbered):
    path = numbered["path_imgrec"]
    with recordio.MXRecordIO(path, "w") as record:
        for i in range(6):
            record.write(
                recordio.pack(recordio.IRHeader(0, 0.0, i, 0), b"\x89PNG\r\n\x1a\nno" if i == 4 else _png())
            )
    source = ImageRecordIter(**numbered)
    for _ in range(2):
        source.next()
        for _ in range(2):
            with pytest.raises(
                FileFormatError, match=r"\[ImageRecordIter\] .*seven\.rec: record 4 at byte \d+: .*png"
            ):
                source.next()
        source.reset()


def _png() -> bytes:
    return codecs.encode(np.zeros((4, 5, 3), np.uint8), ".png", 1)


def test_bad_parameters_are_explained_at_construction(numbered):
    for more, message in (
        ({"data_shape": (5, 4, 5)}, r"data_shape: expected \(1, 3 or 4, height, width\), got \(5, 4, 5\)"),
        ({"batch_size": 0}, "batch_size"),
        ({"inter_method": 7}, "inter_method"),
        ({"part_index": 2, "num_parts": 2}, "part_index < num_parts, got 2 of 2"),
        ({"std_r": 0}, "values other than 0"),
        ({"dtype": "int32"}, "dtype: expected one of float32"),
        ({"rand_crops": True}, "Did you mean 'rand_crop'"),
        ({"max_random_scale": 1e39}, "max_random_scale: expected a finite number of 32 bits, got inf"),
        ({"brightness": 1e39}, "brightness: expected a finite number of 32 bits, got inf"),
    ):
        with pytest.raises(ArgumentError, match=message):
            ImageRecordIter(**numbered | more)
    with pytest.raises(OSError, match=r"absent\.rec"):
        ImageRecordIter(**numbered | {"path_imgrec": "absent.rec"})


def test_the_largest_parameters_make_no_other_image_than_one_of_the_shape(numbered):
    names = (
        "max_img_size",
        "max_shear_ratio",
        "max_aspect_ratio",
        "brightness",
        "contrast",
        "saturation",
        "pca_noise",
    )
    most = dict.fromkeys(names, 3e38)
    whole = {
        "max_rotate_angle": 2**31 - 1,
        "random_h": 2**31 - 1,
        "random_s": 2**31 - 1,
        "random_l": 2**31 - 1,
    }
    for more in ({}, most, whole):
        (batch,) = ImageRecordUInt8Iter(**numbered | {"batch_size": 7}, **more)
        assert batch.data[0].shape == (7, 3, 4, 5) and batch.data[0].asnumpy().dtype == np.uint8


def test_an_empty_part_is_explained(tmp_path, numbered):
    empty = tmp_path / "empty.rec"
    recordio.MXRecordIO(empty, "w").close()
    with pytest.raises(ArgumentError, match="expected records in part 0 of 1, got none"):
        ImageRecordIter(**numbered | {"path_imgrec": str(empty)})


def test_mutated_files_give_batches_or_an_error(tmp_path):
    rng = random.Random(11)
    original = (DATA / "images.rec").read_bytes()
    path = tmp_path / "mutant.rec"
    outcomes = {"read": 0, "refused": 0}
    for _ in range(40):
        mutant = bytearray(original)
        for _ in range(rng.randint(1, 12)):
            mutant[rng.randrange(len(mutant))] = rng.randrange(256)
        path.write_bytes(mutant)
        source = None
        try:
            source = ImageRecordIter(
                path_imgrec=str(path), data_shape=(3, 8, 8), batch_size=10, preprocess_threads=2
            )
            assert len(list(source)) == 4
            outcomes["read"] += 1
        except FileFormatError:
            outcomes["refused"] += 1
        finally:
            if source is not None:
                source.close()
    assert min(outcomes.values()) > 1


def test_batches_stay_as_they_are_while_memory_is_used_again(numbered):
    source = ImageRecordIter(**numbered, prefetch_buffer=1)
    kept = []
    for _ in range(5):
        kept += [(batch, batch.data[0].asnumpy()) for batch in source]
        source.reset()
    for batch, expected in kept:
        assert np.array_equal(batch.data[0].asnumpy(), expected)


def test_threads_end_with_the_iterator(numbered):
    before = set(threading.enumerate())
    sources = [ImageRecordIter(**numbered) for _ in range(5)]
    for source in sources:
        source.next()
        source.reset()
    ours = set(threading.enumerate()) - before
    assert len(ours) >= 5
    sources[0].close()
    del sources, source
    for thread in ours:
        thread.join(timeout=20)
        assert not thread.is_alive()


PROGRAM = """
import os, sys
from mx_io.io import ImageRecordIter
def make():
    return ImageRecordIter(path_imgrec=sys.argv[2], data_shape=(3, 16, 16), batch_size=4, preprocess_threads=3)
source = make()
def labels(batch):
    return batch.index.tolist()
first = labels(source.next())
if sys.argv[1] == "exit":
    pass
elif sys.argv[1] == "error":
    raise SystemExit(5)
else:
    child = os.fork()
    rest = [labels(batch) for batch in source]
    assert len(rest) == 9 and rest[0] == [4, 5, 6, 7], rest
    source.reset()
    assert labels(source.next()) == first
    if child == 0:
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


@pytest.mark.parametrize(("how", "code"), [("exit", 0), ("error", 5), ("fork", 0)])
def test_leaving_and_forking_in_mid_epoch(how, code):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, how, str(DATA / "images.rec")],
        timeout=30,
        capture_output=True,
    )
    assert (done.returncode, done.stderr) == (code, b"")
