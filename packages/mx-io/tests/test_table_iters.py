# SPDX-License-Identifier: Apache-2.0
"""CSVIter and MNISTIter."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from mx_core.errors import ArgumentError, FileFormatError
from mx_io.io import CSVIter, MNISTIter


@pytest.fixture
def table(tmp_path):
    np.savetxt(tmp_path / "data.csv", np.arange(42).reshape(7, 6), delimiter=",", fmt="%d")
    np.savetxt(tmp_path / "label.csv", np.arange(7), fmt="%d")
    return {"data_csv": str(tmp_path / "data.csv"), "data_shape": (2, 3), "batch_size": 3}


@pytest.mark.parametrize("dtype", [None, "float32", "int32", "int64"])
def test_csv_rows_labels_and_rounding(table, tmp_path, dtype):
    source = CSVIter(**table, label_csv=str(tmp_path / "label.csv"), dtype=dtype)
    batches = list(source)
    assert batches[0].data[0].dtype == np.dtype(dtype or "float32")
    assert batches[0].data[0].asnumpy().tolist()[1] == [[6, 7, 8], [9, 10, 11]]
    assert [b.label[0].asnumpy().tolist() for b in batches] == [[0, 1, 2], [3, 4, 5], [6, 0, 1]]
    assert [b.pad for b in batches] == [0, 0, 2]
    source.reset()
    assert source.next().label[0].asnumpy().tolist() == [2, 3, 4]


def test_csv_without_rounding_or_labels(table):
    *_, last = CSVIter(**table, round_batch=False)
    assert last.pad == 2 and last.data[0].asnumpy()[1:].sum() == 0
    assert last.label[0].asnumpy().tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1,2\n3\n", "expected lines of numbers"),
        ("1,x\n", "expected lines of numbers"),
        ("1,2,3\n", "expected 6 values a line"),
        ("", "at least one line"),
    ],
)
@pytest.mark.filterwarnings("ignore:loadtxt")
def test_bad_csv_is_explained(table, tmp_path, content, message):
    (tmp_path / "data.csv").write_text(content)
    with pytest.raises(FileFormatError, match=rf"data\.csv: .*{message}"):
        CSVIter(**table)


@pytest.fixture
def digits(tmp_path):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (10, 4, 3), np.uint8)
    (tmp_path / "images").write_bytes(struct.pack(">4I", 2051, 10, 4, 3) + images.tobytes())
    (tmp_path / "labels").write_bytes(struct.pack(">2I", 2049, 10) + bytes(range(10)))
    return {"image": str(tmp_path / "images"), "label": str(tmp_path / "labels"), "batch_size": 4}, images


def test_mnist_values_are_parts_of_256_and_the_tail_is_dropped(digits):
    files, images = digits
    batches = list(MNISTIter(**files, shuffle=False))
    assert len(batches) == 2
    assert np.array_equal(batches[1].data[0].asnumpy()[:, 0], images[4:8] / np.float32(256))
    assert batches[1].label[0].asnumpy().tolist() == [4, 5, 6, 7]
    assert MNISTIter(**files, flat=True).provide_data[0].shape == (4, 12)


@pytest.mark.parametrize("name", ["input_shape", "data_shape"])
def test_mnist_takes_the_shapes_that_programs_give(digits, name):
    files, images = digits
    for shape in ((1, *images.shape[1:]), (images[0].size,)):  # MXNet passes them over
        assert MNISTIter(**files, **{name: shape}).provide_data[0].shape == (4, 1, *images.shape[1:])
        assert MNISTIter(**files, flat=True, **{name: shape}).provide_data[0].shape == (4, images[0].size)


def test_mnist_shuffles_by_seed_and_divides_into_parts(digits):
    files, _ = digits
    labels = [[b.label[0].asnumpy().tolist() for b in MNISTIter(**files, seed=seed)] for seed in (1, 1, 2)]
    assert labels[0] == labels[1] != labels[2]
    files["batch_size"] = 1
    parts = [
        [b.label[0].asnumpy()[0] for b in MNISTIter(**files, shuffle=False, num_parts=3, part_index=i)]
        for i in range(3)
    ]
    assert parts == [[0, 1, 2], [3, 4, 5], [6, 7, 8, 9]]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda b: b[:7], "expected a header of 16 bytes, got 7"),
        (lambda b: b"\0\0\x08\x01" + b[4:], "expected magic number 2051, got 2049"),
        (lambda b: b[:-1], "expected 136 bytes for"),
        (lambda b: b[:4] + b"\xff" * 12 + b[16:], "got 136"),
    ],
)
def test_bad_mnist_files_are_explained(digits, tmp_path, damage, message):
    files, _ = digits
    path = tmp_path / "images"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(FileFormatError, match=message):
        MNISTIter(**files)


def test_more_parts_than_images_are_explained(digits):
    files, _ = digits
    message = r"\[MNISTIter\] .*: expected images in part 0 of 100, got none of \d+"
    with pytest.raises(ArgumentError, match=message):
        MNISTIter(**files, num_parts=100, part_index=0)


def test_an_iterator_goes_on_from_the_state_of_another(tmp_path):
    file = tmp_path / "data.csv"
    file.write_text("\n".join(str(i) for i in range(7)))

    def made():
        return CSVIter(data_csv=str(file), data_shape=(1,), batch_size=3, round_batch=True)

    def epoch(source):
        batches = [batch.data[0].asnumpy()[:, 0].tolist() for batch in source]
        source.reset()
        return batches

    source, other = made(), made()
    epoch(source)
    other.load_state_dict(source.state_dict())
    assert [epoch(other), epoch(other)] == [epoch(source), epoch(source)] == [
        [[2, 3, 4], [5, 6, 0]], [[1, 2, 3], [4, 5, 6]],
    ]  # fmt: skip


FOREIGN = [
    (None, r"expected what state_dict gave, got None"),
    ({}, r"with 'position', got the keys \[\]"),
    ({"iterations": 3}, r"with 'position', got the keys \['iterations'\]"),
    ({"position": "three"}, r"position: expected a whole number of 0 or more, got 'three'"),
    ({"position": -1}, r"got -1"),
    ({"position": 1.5}, r"got 1.5"),
    ({"position": True}, r"got True"),
    ({"position": np.arange(2)}, r"got array"),
    ({"position": 2**70}, r"got 1180591620717411303424"),
]


@pytest.mark.parametrize(("state", "message"), FOREIGN)
def test_the_state_of_something_else_is_refused_and_changes_nothing(tmp_path, digits, state, message):
    file = tmp_path / "data.csv"
    file.write_text("0\n1\n2")
    for source in (CSVIter(data_csv=str(file), data_shape=(1,), batch_size=2), MNISTIter(**digits[0])):
        first = next(iter(source)).label[0].asnumpy()
        source.reset()
        before = source.state_dict()
        with pytest.raises(ArgumentError, match=rf"^\[{type(source).__name__}\] state: .*{message}"):
            source.load_state_dict(state)
        assert source.state_dict() == before and first.size


def test_a_state_may_come_back_from_a_file_as_an_array(tmp_path):
    file = tmp_path / "data.csv"
    file.write_text("0\n1\n2")
    source = CSVIter(data_csv=str(file), data_shape=(1,), batch_size=2)
    source.load_state_dict({"position": np.array(2)})
    assert next(source).data[0].asnumpy()[:, 0].tolist() == [2, 0]


def test_labels_have_the_layout_of_mxnet(tmp_path):
    file = tmp_path / "data.csv"
    file.write_text("0\n1\n2")
    source = CSVIter(data_csv=str(file), data_shape=(1,), batch_size=2)
    assert repr(source.provide_label) == "[DataDesc[softmax_label,(2,),<class 'numpy.float32'>,NCHW]]"


def test_getters_give_the_arrays_themselves(table, tmp_path):
    source = CSVIter(**table, label_csv=str(tmp_path / "label.csv"))
    assert source.iter_next()
    assert source.getdata().asnumpy()[1].tolist() == [[6, 7, 8], [9, 10, 11]]
    assert source.getlabel().asnumpy().tolist() == [0, 1, 2]
    assert source.next().label[0].asnumpy().tolist() == source.getlabel().asnumpy().tolist() == [3, 4, 5]
