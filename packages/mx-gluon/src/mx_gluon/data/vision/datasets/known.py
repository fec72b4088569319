# SPDX-License-Identifier: Apache-2.0
"""MNIST, Fashion-MNIST and CIFAR, from files that somebody has put where MXNet looks for them."""

from __future__ import annotations

import gzip
import math
import os
import tarfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from mx_core.errors import FileFormatError, MissingFileError
from mx_core.files import naming
from mx_gluon.data.dataset import Dataset
from mx_gluon.folders import data_folder
from mx_ndarray import NDArray, nd

Array = np.ndarray[Any, Any]
Transform = Callable[[NDArray, Any], Any]
#: bytes that a file may say to have; MNIST has 47 million
_LARGEST = 1 << 32


class _Known(Dataset):
    """Images and labels that are read at once."""

    #: the folder below `datasets`, where MXNet puts the files
    folder: ClassVar[str]

    def __init__(self, root: str | os.PathLike[str] | None, transform: Transform | None) -> None:
        self._root = data_folder("datasets", self.folder) if root is None else Path(root).expanduser()
        self._transform = transform
        images, self._label = self._read()
        self._data = nd.array(images, dtype=images.dtype)

    def _read(self) -> tuple[Array, Array]:
        """Images (number, height, width, channels) of uint8, and labels of int32."""
        raise NotImplementedError

    def __getitem__(self, idx: Any) -> Any:
        if self._transform is not None:
            return self._transform(self._data[idx], self._label[idx])
        return self._data[idx], self._label[idx]

    def __len__(self) -> int:
        return len(self._label)

    def _missing(self, names: Sequence[str]) -> MissingFileError:
        return MissingFileError(
            f"[{type(self).__name__}] {self._root} has not {' nor '.join(names)}: nothing here opens a network "
            "connection; put the files of the data set there, or give their folder as root"
        )


class MNIST(_Known):
    """70,000 handwritten digits: images (28, 28, 1) of uint8 with labels from 0 to 9.

    Threads: any.

    Source: LeCun, Bottou, Bengio and Haffner, Gradient-Based Learning Applied to Document Recognition, 1998.

    Parameters
    ----------
    root : path, optional
        The folder with `train-images-idx3-ubyte`, `train-labels-idx1-ubyte`, and the same of `t10k`, with or without
        `.gz`; by default `datasets/mnist` in MXNET_HOME or `~/.mxnet`.
    train : bool
        The 60,000 of training, or the 10,000 of tests.
    transform : callable, optional
        From image and label to a sample.

    Raises
    ------
    MissingFileError  a file is not there; nothing is downloaded
    FileFormatError   one is damaged
    """

    folder = "mnist"

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        train: bool = True,
        transform: Transform | None = None,
    ) -> None:
        self._train = train
        super().__init__(root, transform)

    def _read(self) -> tuple[Array, Array]:
        part = "train" if self._train else "t10k"
        labels = self._idx(f"{part}-labels-idx1-ubyte", 1)
        images = self._idx(f"{part}-images-idx3-ubyte", 3)
        if images.shape != (len(labels), 28, 28):
            raise FileFormatError(
                f"[{type(self).__name__}] {self._root}: expected images of shape ({len(labels)}, 28, 28), as many as "
                f"labels, got {images.shape}"
            )
        return images[..., None], labels.astype(np.int32)

    def _idx(self, name: str, axes: int) -> Array:
        """An array in the IDX format."""
        for path in (self._root / f"{name}.gz", self._root / name):
            if path.exists():
                break
        else:
            raise self._missing([f"{name}.gz", name])
        with naming(path), gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            try:
                head = file.read(4 + 4 * axes)
                shape = tuple(np.frombuffer(head[4:], ">u4").tolist()) if len(head) == 4 + 4 * axes else ()
                size = math.prod(shape)
                content = file.read(size + 1) if size <= _LARGEST else b""  # not what a small file unpacks to
            except (gzip.BadGzipFile, EOFError, zlib.error) as error:
                raise FileFormatError(f"[{type(self).__name__}] {path}: {error}") from error
        if head[:4] != bytes((0, 0, 8, axes)) or len(content) != size:
            raise FileFormatError(
                f"[{type(self).__name__}] {path}: expected {axes} axes of bytes in the IDX format, got "
                f"{head[:4].hex()} with shape {shape} and {len(content)} bytes"
            )
        return np.frombuffer(content, np.uint8).reshape(shape)


class FashionMNIST(MNIST):
    """70,000 articles of clothing in the format of MNIST.

    Threads: any.

    Source: Xiao, Rasul and Vollgraf, Fashion-MNIST, 2017.

    Parameters
    ----------
    root, train, transform : as of `MNIST`
        The folder is `datasets/fashion-mnist`.
    """

    folder = "fashion-mnist"


class CIFAR10(_Known):
    """60,000 photographs of ten classes: images (32, 32, 3) of uint8.

    Threads: any.

    Source: Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009.

    Parameters
    ----------
    root : path, optional
        The folder with `data_batch_1.bin` to `data_batch_5.bin` and `test_batch.bin`, or with `cifar-10-binary.tar.gz`;
        by default `datasets/cifar10` in MXNET_HOME or `~/.mxnet`.
    train : bool
        The 50,000 of training, or the 10,000 of tests.
    transform : callable, optional
        From image and label to a sample.

    Raises
    ------
    MissingFileError  a file is not there; nothing is downloaded
    FileFormatError   one is damaged
    """

    folder = "cifar10"
    archive: ClassVar[str] = "cifar-10-binary.tar.gz"
    files: ClassVar[dict[bool, Sequence[str]]] = {
        True: [f"data_batch_{i}.bin" for i in range(1, 6)],
        False: ["test_batch.bin"],
    }
    #: bytes of labels before each image, and which is taken
    labels: ClassVar[int] = 1
    _label_place = 0

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        train: bool = True,
        transform: Transform | None = None,
    ) -> None:
        self._train = train
        super().__init__(root, transform)

    def _read(self) -> tuple[Array, Array]:
        rows = np.concatenate([self._rows(name) for name in self.files[self._train]])
        images = rows[:, self.labels :].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        return images, rows[:, self._label_place].astype(np.int32)

    def _rows(self, name: str) -> Array:
        """The bytes of labels and pixels, an image a row."""
        width = self.labels + 3 * 32 * 32
        content = self._content(name)
        if len(content) % width:
            raise FileFormatError(
                f"[{type(self).__name__}] {name} in {self._root}: expected rows of {width} bytes, got "
                f"{len(content)} in all"
            )
        return np.frombuffer(content, np.uint8).reshape(-1, width)

    def _content(self, name: str) -> bytes:
        path, archive = self._root / name, self._root / self.archive
        if path.exists():
            with naming(path):
                return path.read_bytes()
        if not archive.exists():
            raise self._missing([name, self.archive])
        with naming(archive):
            try:
                with tarfile.open(archive) as tar:
                    member = next((m for m in tar if m.isfile() and os.path.basename(m.name) == name), None)
                    file = tar.extractfile(member) if member is not None else None
                    if file is not None:
                        return file.read()
            except (tarfile.TarError, EOFError, zlib.error) as error:
                raise FileFormatError(f"[{type(self).__name__}] {archive}: {error}") from error
        raise FileFormatError(f"[{type(self).__name__}] {archive}: it has no file {name}")


class CIFAR100(CIFAR10):
    """60,000 photographs of a hundred classes in twenty groups, otherwise as `CIFAR10`.

    Threads: any.

    Parameters
    ----------
    root, train, transform : as of `CIFAR10`
        The folder is `datasets/cifar100`, the files `train.bin`, `test.bin` and `cifar-100-binary.tar.gz`.
    fine_label : bool
        Labels are classes; otherwise groups.
    """

    folder = "cifar100"
    archive = "cifar-100-binary.tar.gz"
    files: ClassVar[dict[bool, Sequence[str]]] = {True: ["train.bin"], False: ["test.bin"]}
    labels = 2

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        fine_label: bool = False,
        train: bool = True,
        transform: Transform | None = None,
    ) -> None:
        self._label_place = int(fine_label)
        super().__init__(root, train, transform)
