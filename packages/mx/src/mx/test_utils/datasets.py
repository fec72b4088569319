# SPDX-License-Identifier: Apache-2.0
"""Data sets from local files. Nothing here opens a network connection: errors say which file to put where."""

from __future__ import annotations

import bz2
import gzip
import os
import shutil
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mx.base import data_dir
from mx_core.errors import FileFormatError, MissingFileError
from mx_core.files import atomic_write, naming

Array = np.ndarray[Any, Any]
_MNIST = (
    "train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte",
)  # fmt: skip


def download(
    url: str,
    fname: str | None = None,
    dirname: str | None = None,
    overwrite: bool = False,
    retries: int = 5,
) -> str:
    """The local file that a URL stands for. Nothing is fetched: the file must be there.

    Parameters
    ----------
    url : str
        Its last part is the file's name.
    fname : str, optional
        The file instead.
    dirname : str, optional
        The folder that it is in; the current one without.
    overwrite, retries : as in MXNet
        Of no effect.

    Returns
    -------
    str
        The file's path.

    Raises
    ------
    MissingFileError  the file is not there; the message says where to put it
    """
    name = url.rsplit("/", 1)[-1] if fname is None else fname
    path = name if dirname is None else os.path.join(dirname, name)
    if not os.path.isfile(path):
        raise MissingFileError(
            f"[test_utils.download] nothing here opens a network connection: fetch {url} and put it at {path}"
        )
    return path


def download_model(
    model_name: str, dst_dir: str = "./", meta_info: dict[str, dict[str, str]] | None = None
) -> tuple[str, int]:
    """The prefix and epoch of a model whose files are in a folder.

    Parameters
    ----------
    model_name : str
    dst_dir : path
        The folder with `MODEL_NAME-symbol.json` and `MODEL_NAME-0000.params`.
    meta_info : dict, optional
        Model -> `{"symbol": url, "params": url}`; errors name these.

    Returns
    -------
    (str, int)
        As `model.load_checkpoint` takes them.

    Raises
    ------
    MissingFileError  a file is not there
    """
    urls = (meta_info or {}).get(model_name, {})
    for kind, ending in (("symbol", "-symbol.json"), ("params", "-0000.params")):
        download(urls.get(kind, f"the {kind} of {model_name}"), f"{model_name}{ending}", dst_dir)
    return os.path.join(dst_dir, model_name), 0


# ---- archives ----


def get_zip_data(data_dir: str, url: str, data_origin_name: str) -> None:
    """Unpacks an archive in a folder, if it is not unpacked there already.

    Parameters
    ----------
    data_dir : str
        The folder.
    url : str
        Where the archive comes from, for errors.
    data_origin_name : str
        The archive's name.

    Raises
    ------
    MissingFileError  the archive is not there
    FileFormatError   it is damaged
    """
    archive = Path(data_dir, data_origin_name)
    if not archive.is_file():
        download(url, data_origin_name, data_dir)
    try:
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(data_dir)
    except zipfile.BadZipFile as error:
        raise FileFormatError(f"[get_zip_data] {archive}: {error}") from error


def get_bz2_data(data_dir: str, data_name: str, url: str, data_origin_name: str) -> None:
    """Unpacks a file in a folder, if it is not there already.

    Parameters
    ----------
    data_dir : str
        The folder.
    data_name : str
        The unpacked file.
    url : str
        Where the packed file comes from, for errors.
    data_origin_name : str
        The packed file. It is removed once it is unpacked, as in MXNet.

    Raises
    ------
    MissingFileError  neither file is there
    FileFormatError   the packed one is damaged
    """
    target, packed = Path(data_dir, data_name), Path(data_dir, data_origin_name)
    if target.exists():
        return
    if not packed.is_file():
        download(url, data_origin_name, data_dir)
    try:
        with bz2.open(packed) as source, atomic_write(target) as file:
            shutil.copyfileobj(source, file)
    except (OSError, EOFError) as error:
        if getattr(error, "errno", None) is not None:
            raise
        raise FileFormatError(f"[get_bz2_data] {packed}: {error}") from error
    packed.unlink()


# ---- MNIST and CIFAR-10 ----


def _found(name: str, folders: Sequence[Path]) -> Path:
    """A file, packed or not, in the first folder that has it."""
    for folder in folders:
        for path in (folder / name, folder / f"{name}.gz"):
            if path.is_file():
                return path
    raise MissingFileError(
        f"[test_utils] there is no {name} nor {name}.gz in {', '.join(map(str, folders))}; nothing here opens a "
        "network connection: put the file into one of these"
    )


def _folders() -> list[Path]:
    return [Path(), Path("data"), Path(data_dir(), "datasets", "mnist")]


def _unpacked(path: Path) -> bytes:
    """What is in a file, which may be packed."""
    with naming(path), gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        try:
            content: bytes = file.read()
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise FileFormatError(f"[test_utils] {path}: {error}") from error
    return content


def _idx(name: str, axes: int) -> Array:
    path = _found(name, _folders())
    content = _unpacked(path)
    head = 4 + 4 * axes
    shape = tuple(np.frombuffer(content[4:head], ">u4").tolist()) if len(content) >= head else ()
    if content[:4] != bytes((0, 0, 8, axes)) or len(content) != head + int(np.prod(shape, dtype=object)):
        raise FileFormatError(f"[test_utils] {path}: expected {axes} axes of bytes in the IDX format")
    return np.frombuffer(content, np.uint8, offset=head).reshape(shape)


def get_mnist() -> dict[str, Array]:
    """MNIST from its four files in the current folder, `data` or `datasets/mnist` of MXNET_HOME, packed or not.

    Returns
    -------
    dict
        `train_data` and `test_data` (number, 1, 28, 28) of float32 from 0 to 1, `train_label` and `test_label` of int8.

    Raises
    ------
    MissingFileError  a file is not there
    FileFormatError   one is damaged
    """
    train_images, train_labels, test_images, test_labels = _MNIST
    found = {
        "train_data": train_images,
        "train_label": train_labels,
        "test_data": test_images,
        "test_label": test_labels,
    }
    result: dict[str, Array] = {}
    for key, name in found.items():
        if key.endswith("label"):
            result[key] = _idx(name, 1).astype(np.int8)
        else:
            images = _idx(name, 3)
            result[key] = images.reshape(len(images), 1, *images.shape[1:]).astype(np.float32) / 255
    return result


def get_mnist_pkl() -> None:
    """Looks for `data/mnist.pkl.gz`.

    Raises
    ------
    MissingFileError  it is not there
    """
    download("mnist.pkl.gz", dirname="data")


def get_mnist_ubyte() -> None:
    """Has the four files of MNIST in `data`, unpacked: from `data/mnist.zip`, or packed ones there.

    Raises
    ------
    MissingFileError  there is none of these
    FileFormatError   one is damaged
    """
    folder = Path("data")
    if all((folder / name).is_file() for name in _MNIST):
        return
    if (folder / "mnist.zip").is_file():
        get_zip_data("data", "mnist.zip", "mnist.zip")
    for name in _MNIST:
        if not (folder / name).is_file():
            packed = _found(name, _folders())
            folder.mkdir(exist_ok=True)
            with atomic_write(folder / name) as file:
                file.write(_unpacked(packed))


def get_mnist_iterator(
    batch_size: int, input_shape: Sequence[int], num_parts: int = 1, part_index: int = 0
) -> tuple[Any, Any]:
    """Iterators of training and validation over MNIST; the files are those of `get_mnist_ubyte`.

    Parameters
    ----------
    batch_size : int
    input_shape : sequence of int
        Images are flat unless it has three axes.
    num_parts, part_index : int
        The iterators give one of so many parts.

    Returns
    -------
    (MNISTIter, MNISTIter)
        The first one is shuffled.

    Raises
    ------
    MissingFileError, FileFormatError  as of `get_mnist_ubyte`
    """
    from mx_io.io import MNISTIter

    get_mnist_ubyte()
    made = [
        MNISTIter(
            image=f"data/{part}-images-idx3-ubyte", label=f"data/{part}-labels-idx1-ubyte", batch_size=batch_size,
            shuffle=part == "train", flat=len(input_shape) != 3, num_parts=num_parts, part_index=part_index,
        )
        for part in ("train", "t10k")
    ]  # fmt: skip
    return made[0], made[1]


def get_cifar10() -> None:
    """Has the files of CIFAR-10 in `data/cifar`, such as `train.rec`: from `data/cifar10.zip`.

    Raises
    ------
    MissingFileError  there is neither
    FileFormatError   the archive is damaged
    """
    if not Path("data", "cifar", "train.rec").is_file():
        get_zip_data("data", "cifar10.zip", "cifar10.zip")
