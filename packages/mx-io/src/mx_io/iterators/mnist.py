# SPDX-License-Identifier: Apache-2.0
"""Batches from files in the format of the MNIST digits."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from mx_core.errors import ArgumentError, FileFormatError
from mx_core.files import read_bytes
from mx_core.operator import Params, Shape, opt
from mx_io.iterators.documentation import documented
from mx_io.iterators.order import ExampleOrder
from mx_io.iterators.table import TableIter


class MNISTParams(Params):
    """Of `MNISTIter`."""

    image: str = opt("./train-images-idx3-ubyte", "file of the images")
    label: str = opt("./train-labels-idx1-ubyte", "file of the labels")
    batch_size: int = opt(128, "examples in a batch", lower=1)
    shuffle: bool = opt(True, "read in a new random order in every epoch")
    flat: bool = opt(False, "examples of one axis instead of (1, height, width)")
    input_shape: Shape | None = opt(None, "accepted; `flat` decides, as in MXNet")
    data_shape: Shape | None = opt(None, "accepted; `flat` decides, as in MXNet")
    seed: int = opt(0, "seed of the order")
    silent: bool = opt(False, "accepted; nothing is printed")
    num_parts: int = opt(1, "parts the data are divided into", lower=1)
    part_index: int = opt(0, "which part to read", lower=0)
    prefetch_buffer: int = opt(4, "accepted; the file is read at construction", lower=0)
    ctx: str = opt("gpu", "accepted; batches are in CPU memory", choices=("cpu", "gpu"))
    dtype: str | None = opt(None, "accepted as float32", choices=(None, "float32"))


@documented(MNISTParams)
class MNISTIter(TableIter):
    """Iterate over images and labels in MNIST's format, with values from 0 to 255/256.

    Parameters
    ----------
    data_name, label_name : str
    **kwargs
        See below. An incomplete last batch is dropped.

    Raises
    ------
    FileFormatError
        A file has the wrong magic number or length; names what it has.
    """

    def __init__(self, data_name: str = "data", label_name: str = "softmax_label", **kwargs: Any) -> None:
        p = MNISTParams.parse(kwargs, op="MNISTIter")
        if p.part_index >= p.num_parts:
            raise ArgumentError(
                f"[MNISTIter] expected part_index < num_parts, got {p.part_index} of {p.num_parts}"
            )
        images = read_idx(p.image, 3)
        labels = read_idx(p.label, 1)
        if len(images) != len(labels):
            raise FileFormatError(f"[MNISTIter] {p.label}: expected {len(images)} labels, got {len(labels)}")
        begin, end = (int(len(images) * i / p.num_parts) for i in (p.part_index, p.part_index + 1))
        if begin == end:
            raise ArgumentError(
                f"[MNISTIter] {p.image}: expected images in part {p.part_index} of {p.num_parts}, got none of "
                f"{len(images)}"
            )
        data = images[begin:end].astype(np.float32) * np.float32(1 / 256)
        data = data.reshape(len(data), -1) if p.flat else data[:, None]
        order = ExampleOrder(len(data), p.batch_size, shuffle=p.shuffle, seed=p.seed, tail="discard")
        super().__init__(data, labels[begin:end].astype(np.float32), order, data_name, label_name)


def read_idx(path: str, axes: int) -> npt.NDArray[np.uint8]:
    """Bytes of a file in MNIST's format: magic 0x0800 + axes, one big-endian length an axis, the values."""
    content = read_bytes(path)
    head = 4 * (1 + axes)
    if len(content) < head:
        raise FileFormatError(f"[MNISTIter] {path}: expected a header of {head} bytes, got {len(content)}")
    magic, *shape = struct.unpack_from(f">{1 + axes}I", content)
    if magic != 0x0800 + axes:
        raise FileFormatError(f"[MNISTIter] {path}: expected magic number {0x0800 + axes}, got {magic}")
    count = 1
    for length in shape:
        count *= length
    if len(content) != head + count:
        raise FileFormatError(
            f"[MNISTIter] {path}: expected {head + count} bytes for {shape}, got {len(content)}"
        )
    return np.frombuffer(content, np.uint8, count, head).reshape(shape)
