# SPDX-License-Identifier: Apache-2.0
"""Data sets of images in files, and random transforms."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mx_core.errors import ArgumentError, DTypeError, FileFormatError, MissingFileError
from mx_gluon import data
from mx_gluon.data.vision import (
    CIFAR10,
    CIFAR100,
    MNIST,
    FashionMNIST,
    ImageFolderDataset,
    ImageRecordDataset,
    transforms,
)
from mx_ndarray import nd
from mx_ndarray import random as mx_random

pytestmark = pytest.mark.timeout(60)
RNG = np.random.default_rng(0)


def idx(array: Any) -> bytes:
    head = bytes((0, 0, 8, array.ndim)) + np.array(array.shape, ">i4").tobytes()
    return head + array.astype("uint8").tobytes()


def write_digits(folder: Path, count: int, part: str, packed: bool) -> tuple[Any, Any]:
    images = RNG.integers(0, 256, (count, 28, 28)).astype("uint8")
    labels = RNG.integers(0, 10, count).astype("uint8")
    for name, array in ((f"{part}-images-idx3-ubyte", images), (f"{part}-labels-idx1-ubyte", labels)):
        if packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(idx(array)))
        else:
            (folder / name).write_bytes(idx(array))
    return images, labels


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("kind", [MNIST, FashionMNIST])
def test_digits(tmp_path: Path, kind: Any, packed: bool) -> None:
    images, labels = write_digits(tmp_path, 5, "train", packed)
    write_digits(tmp_path, 2, "t10k", packed)
    dataset = kind(root=str(tmp_path))
    assert (len(dataset), len(kind(tmp_path, train=False))) == (5, 2)
    x, y = dataset[3]
    assert x.shape == (28, 28, 1) and x.dtype == np.uint8
    assert (x.asnumpy()[..., 0] == images[3]).all()
    assert y == labels[3] and y.dtype == np.int32
    assert kind(tmp_path, transform=lambda x, y: (x.astype("float32") / 255, -y))[1][1] == -int(labels[1])
    batches = list(data.DataLoader(dataset.transform_first(transforms.ToTensor()), 2, num_workers=1))
    assert [batch[0].shape for batch in batches] == [(2, 1, 28, 28), (2, 1, 28, 28), (1, 1, 28, 28)]


def test_the_folder_is_that_of_mxnet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXNET_HOME", str(tmp_path))
    folder = tmp_path / "datasets" / "mnist"
    with pytest.raises(
        MissingFileError, match=f"{folder} has not train-labels.*nothing here opens a network"
    ) as caught:
        MNIST()
    assert isinstance(caught.value, FileNotFoundError)
    assert not folder.exists()
    folder.mkdir(parents=True)
    write_digits(folder, 3, "train", True)
    assert len(MNIST()) == 3


def test_damaged_digits(tmp_path: Path) -> None:
    write_digits(tmp_path, 4, "train", True)
    labels, images = (tmp_path / f"train-{name}-ubyte.gz" for name in ("labels-idx1", "images-idx3"))
    good = labels.read_bytes()
    for content, message in (
        (good[:-9], "labels"), (b"no gzip", "gzip"), (gzip.compress(b""), "IDX format"),
        (gzip.compress(gzip.decompress(good)[:-1]), "IDX format"), (gzip.compress(idx(np.zeros(3))), "as many as labels"),
        (gzip.compress(bytes((0, 0, 8, 1, 255, 255, 255, 255))), "IDX format"),
    ):  # fmt: skip
        labels.write_bytes(content)
        with pytest.raises(FileFormatError, match=message):
            MNIST(tmp_path)
    labels.write_bytes(good)
    images.unlink()
    images.mkdir()
    with pytest.raises(OSError, match="images"):
        MNIST(tmp_path)


def rows(count: int, labels: int) -> Any:
    return RNG.integers(0, 100, (count, labels + 3072)).astype("uint8")


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(
    ("kind", "names", "archive", "labels"),
    [
        (CIFAR10, [f"data_batch_{i}.bin" for i in range(1, 6)], "cifar-10-binary.tar.gz", 1),
        (CIFAR100, ["train.bin"], "cifar-100-binary.tar.gz", 2),
    ],
)
def test_photographs(
    tmp_path: Path, kind: Any, names: list[str], archive: str, labels: int, packed: bool
) -> None:
    parts = [rows(2, labels) for _ in names]
    with tarfile.open(tmp_path / archive, "w:gz") as tar:
        for name, part in zip(names, parts, strict=True):
            if packed:
                info = tarfile.TarInfo(f"cifar/{name}")
                info.size = part.nbytes
                tar.addfile(info, io.BytesIO(part.tobytes()))
            else:
                (tmp_path / name).write_bytes(part.tobytes())
    table = np.concatenate(parts)
    dataset = kind(tmp_path)
    assert len(dataset) == len(table)
    x, y = dataset[1]
    assert x.shape == (32, 32, 3)
    assert x.asnumpy()[4, 5].tolist() == table[1, labels:].reshape(3, 32, 32)[:, 4, 5].tolist()
    assert y == table[1, 0] and y.dtype == np.int32
    if kind is CIFAR100:
        assert kind(tmp_path, fine_label=True)[1][1] == table[1, 1]
    with pytest.raises((FileFormatError, MissingFileError), match="test"):
        kind(tmp_path, train=False)
    (tmp_path / names[0]).write_bytes(b"short")
    with pytest.raises(FileFormatError, match=f"expected rows of {labels + 3072} bytes, got 5 in all"):
        kind(tmp_path)


def test_a_damaged_archive(tmp_path: Path) -> None:
    for content in (b"", b"no archive", gzip.compress(b"no tar" * 200)[:-20]):
        (tmp_path / "cifar-10-binary.tar.gz").write_bytes(content)
        with pytest.raises(FileFormatError, match=r"cifar-10-binary.tar.gz"):
            CIFAR10(tmp_path)


def test_folders_are_classes(tmp_path: Path) -> None:
    from PIL import Image

    for name in ("dog/b.png", "dog/a.JPG", "cat/c.jpeg", "cat/notes.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        if path.suffix == ".txt":
            path.write_text("no image")
        else:
            Image.fromarray(np.full((3, 4, 3), 200, "uint8")).save(path)
    (tmp_path / "readme").write_text("no folder")
    with pytest.warns(UserWarning) as told:
        dataset = ImageFolderDataset(tmp_path)
    assert sorted(str(each.message) for each in told) == [
        f"Ignoring {tmp_path}/cat/notes.txt of type .txt. Only support .jpg, .jpeg, .png",
        f"Ignoring {tmp_path}/readme, which is not a directory.",
    ]
    assert {each.filename for each in told} == {__file__}
    assert dataset.synsets == ["cat", "dog"]
    assert dataset.items == [
        (f"{tmp_path}/{name}", i) for name, i in (("cat/c.jpeg", 0), ("dog/a.JPG", 1), ("dog/b.png", 1))
    ]
    x, y = dataset[2]
    assert (x.shape, y, len(dataset)) == ((3, 4, 3), 1, 3)
    with pytest.warns(UserWarning):
        assert ImageFolderDataset(tmp_path, 0, lambda x, y: x.shape)[0] == (3, 4, 1)
    with pytest.raises(OSError, match="nowhere"):
        ImageFolderDataset(tmp_path / "nowhere")


def test_images_of_records(tmp_path: Path) -> None:
    from mx_io.recordio import IRHeader, MXIndexedRecordIO, pack_img

    pixels = RNG.integers(0, 256, (5, 6, 3)).astype("uint8")
    with MXIndexedRecordIO(str(tmp_path / "a.idx"), str(tmp_path / "a.rec"), "w") as record:
        for i in range(3):
            record.write_idx(i, pack_img(IRHeader(0, float(i), i, 0), pixels, img_fmt=".png"))
    dataset = ImageRecordDataset(tmp_path / "a.rec")
    x, y = dataset[2]
    assert (x.shape, y) == ((5, 6, 3), 2.0)
    loader = data.DataLoader(dataset.transform_first(transforms.ToTensor()), 3, num_workers=2)
    ((x, y),) = loader
    assert x.shape == (3, 3, 5, 6) and y.asnumpy().tolist() == [0, 1, 2]
    assert ImageRecordDataset(tmp_path / "a.rec", 0, lambda x, y: x.shape)[0] == (5, 6, 1)


def test_a_record_that_is_no_image_is_named(tmp_path: Path) -> None:
    from mx_io.recordio import IRHeader, MXIndexedRecordIO, pack

    with MXIndexedRecordIO(str(tmp_path / "b.idx"), str(tmp_path / "b.rec"), "w") as records:
        records.write_idx(4, pack(IRHeader(0, 1.0, 4, 0), b"junk"))
        records.write_idx(7, b"x")
    dataset = ImageRecordDataset(tmp_path / "b.rec")
    for place, told in (
        (0, "b.rec: record 4: .*expected an image"),
        (1, "b.rec: record 7: .*bytes of header"),
    ):
        with pytest.raises(FileFormatError, match=told):
            dataset[place]


@pytest.mark.parametrize(
    "transform",
    [
        transforms.RandomBrightness(0.5), transforms.RandomContrast(0.5), transforms.RandomSaturation(0.5),
        transforms.RandomHue(0.4), transforms.RandomColorJitter(0.3, 0.3, 0.3, 0.3), transforms.RandomLighting(0.5),
        transforms.RandomFlipLeftRight(), transforms.RandomFlipTopBottom(),
    ],
    ids=lambda each: type(each).__name__,
)  # fmt: skip
def test_random_transforms_follow_the_seed(transform: Any) -> None:
    x = nd.array(RNG.integers(60, 180, (8, 6, 3)), dtype="float32")

    def drawn(seed: int) -> list[Any]:
        mx_random.seed(seed)
        return [transform(x).asnumpy() for _ in range(8)]

    one, again, other = drawn(1), drawn(1), drawn(2)
    assert all((a == b).all() for a, b in zip(one, again, strict=True))
    assert len({each.tobytes() for each in (*one, *other)}) > 1
    assert {each.shape for each in one} == {(8, 6, 3)}
    if "Flip" in type(transform).__name__:
        axis = 1 if "LeftRight" in type(transform).__name__ else 0
        expected = {x.asnumpy().tobytes(), np.flip(x.asnumpy(), axis).tobytes()}
        assert {each.tobytes() for each in (*one, *other)} == expected


def test_rotations_say_what_is_wrong() -> None:
    bytes_ = nd.zeros((3, 4, 4), dtype="uint8")
    for transform in (transforms.Rotate(5), transforms.RandomRotation((0, 5))):
        with pytest.raises(DTypeError, match="expected float32, got uint8: it comes after ToTensor"):
            transform(bytes_)
    with pytest.raises(ArgumentError, match="cannot be both True"):
        transforms.Rotate(5, True, True)(nd.zeros((3, 4, 4)))
    for limits, probability in (((5, 5), 1.0), ((0, 5), 1.5), ((0, 5), float("nan"))):
        with pytest.raises(ArgumentError):
            transforms.RandomRotation(limits, rotate_with_proba=probability)


def test_paths_may_begin_with_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    os.makedirs(tmp_path / "digits")
    write_digits(tmp_path / "digits", 2, "train", False)
    assert len(MNIST("~/digits")) == 2
