# SPDX-License-Identifier: Apache-2.0
"""Data sets come from local files, and errors say where to put them."""

import bz2
import gzip
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from mx import test_utils
from mx_core.errors import FileFormatError, MissingFileError

SIZES = {"train": 30, "t10k": 20}


def idx(array: np.ndarray) -> bytes:
    head = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    return head + array.astype(np.uint8).tobytes()


def mnist() -> dict[str, bytes]:
    made = {}
    for part, n in SIZES.items():
        made[f"{part}-images-idx3-ubyte"] = idx(np.arange(n * 784).reshape(n, 28, 28) % 256)
        made[f"{part}-labels-idx1-ubyte"] = idx(np.arange(n) % 10)
    return made


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MXNET_HOME", str(tmp_path / "home"))
    (tmp_path / "data").mkdir()
    return tmp_path


@pytest.mark.parametrize("place", [".", "data", "home/datasets/mnist"])
@pytest.mark.parametrize("packed", [True, False])
def test_mnist_is_read_where_it_lies(place: str, packed: bool, folder: Path) -> None:
    (folder / place).mkdir(parents=True, exist_ok=True)
    for name, content in mnist().items():
        (folder / place / (name + ".gz" * packed)).write_bytes(gzip.compress(content) if packed else content)
    found = test_utils.get_mnist()
    assert {key: (value.shape, str(value.dtype)) for key, value in found.items()} == {
        "train_data": ((30, 1, 28, 28), "float32"), "train_label": ((30,), "int8"),
        "test_data": ((20, 1, 28, 28), "float32"), "test_label": ((20,), "int8"),
    }  # fmt: skip
    assert found["train_data"].max() == 1
    assert found["test_label"].tolist() == [i % 10 for i in range(20)]


@pytest.mark.parametrize(
    "function", ["get_mnist", "get_mnist_ubyte", "get_mnist_pkl", "get_cifar10"]
)  # fmt: skip
def test_without_files_errors_say_which_to_put_where(function: str) -> None:
    with pytest.raises(MissingFileError, match="opens a network connection: .*put"):
        getattr(test_utils, function)()
    with pytest.raises(MissingFileError, match="train-images-idx3-ubyte"):
        test_utils.get_mnist_iterator(10, (784,))


@pytest.mark.parametrize(
    ("shape", "batch"), [((1, 28, 28), (10, 1, 28, 28)), ((784,), (10, 784)), ((28, 28), (10, 784))]
)
def test_iterators_over_mnist(shape: tuple[int, ...], batch: tuple[int, ...], folder: Path) -> None:
    with zipfile.ZipFile(folder / "data" / "mnist.zip", "w") as archive:
        for name, content in mnist().items():
            archive.writestr(name, content)
    train, validation = test_utils.get_mnist_iterator(10, shape)
    assert train.provide_data[0].shape == validation.provide_data[0].shape == batch
    assert [int(v) for b in validation for v in b.label[0].asnumpy()] == [i % 10 for i in range(20)]
    half, _ = test_utils.get_mnist_iterator(5, shape, num_parts=2, part_index=1)
    assert sum(len(b.label[0]) for b in half) == 15


def test_packed_files_elsewhere_are_unpacked_for_the_iterators(folder: Path) -> None:
    for name, content in mnist().items():
        (folder / f"{name}.gz").write_bytes(gzip.compress(content))
    test_utils.get_mnist_ubyte()
    assert (folder / "data" / "t10k-labels-idx1-ubyte").read_bytes() == mnist()["t10k-labels-idx1-ubyte"]


def test_damaged_files_are_refused(folder: Path) -> None:
    for content, packed in ((b"\0\0\x08\x01\0\0\0\x09abc", b"no gzip"), (b"", gzip.compress(b"a" * 99)[:-9])):
        (folder / "train-labels-idx1-ubyte.gz").write_bytes(packed)
        (folder / "train-images-idx3-ubyte").write_bytes(content)
        with pytest.raises(FileFormatError, match="train-images-idx3-ubyte: expected 3 axes"):
            test_utils.get_mnist()
        (folder / "train-images-idx3-ubyte").write_bytes(mnist()["train-images-idx3-ubyte"])
        with pytest.raises(FileFormatError, match="train-labels-idx1-ubyte.gz"):
            test_utils.get_mnist()


def test_archives_are_unpacked(folder: Path) -> None:
    with zipfile.ZipFile(folder / "data" / "cifar10.zip", "w") as archive:
        archive.writestr("cifar/train.rec", "records")
    test_utils.get_cifar10()
    assert (folder / "data" / "cifar" / "train.rec").read_text() == "records"
    (folder / "data" / "f.bz2").write_bytes(bz2.compress(b"text"))
    for _ in range(2):  # the second time it is there
        test_utils.get_bz2_data("data", "f", "http://example.org/f.bz2", "f.bz2")
        assert (folder / "data" / "f").read_text() == "text"
    assert not (folder / "data" / "f.bz2").exists()
    (folder / "data" / "g.bz2").write_bytes(b"nothing")
    with pytest.raises(FileFormatError, match="g.bz2"):
        test_utils.get_bz2_data("data", "g", "http://example.org/g.bz2", "g.bz2")
    assert not (folder / "data" / "g").exists()
    (folder / "data" / "z.zip").write_bytes(b"nothing")
    with pytest.raises(FileFormatError, match="z.zip"):
        test_utils.get_zip_data("data", "http://example.org/z.zip", "z.zip")
    with pytest.raises(MissingFileError, match="fetch http://example.org/y.zip and put it at data/y.zip"):
        test_utils.get_zip_data("data", "http://example.org/y.zip", "y.zip")


def test_files_of_urls_and_models(folder: Path) -> None:
    (folder / "m-symbol.json").touch()
    assert test_utils.download("http://example.org/m-symbol.json") == "m-symbol.json"
    with pytest.raises(MissingFileError, match="fetch http://example.org/p and put it at ./m-0000.params"):
        test_utils.download_model("m", meta_info={"m": {"params": "http://example.org/p"}})
    (folder / "m-0000.params").touch()
    assert test_utils.download_model("m") == ("./m", 0)
