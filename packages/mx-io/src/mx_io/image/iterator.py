# SPDX-License-Identifier: Apache-2.0
"""`ImageIter`: images from a record file or from image files, through a list of Python augmenters."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mx_core import dtypes
from mx_core.errors import ArgumentError, FileFormatError, ShapeError
from mx_core.files import naming
from mx_io.arrays import to_ndarray, to_numpy
from mx_io.im2rec.listing import ListEntry, read_list
from mx_io.image.augmenters import Augmenter
from mx_io.image.create import CreateAugmenter
from mx_io.image.functions import imdecode
from mx_io.iterators.base import BatchIter, DataBatch, DataDesc
from mx_io.packing import unpack
from mx_io.recordio import MXRecordIO, read_index

if TYPE_CHECKING:
    from mx_ndarray import NDArray

_LOG = logging.getLogger("mx_io.image")


class ImageIter(BatchIter):
    """Iterate over images with augmenters written in Python.

    Slower than `ImageRecordIter`, which decodes and augments in background threads; made to be subclassed:
    `next_sample`, `check_valid_image`, `augmentation_transform` and `postprocess_data` may be overridden.

    Parameters
    ----------
    batch_size : int
    data_shape : (channels, height, width)
    label_width : int
        Labels of an image.
    path_imgrec, path_imgidx : str, optional
        A record file, and its index.
    path_imglist : str, optional
        A list file of images below `path_root`, or of labels for a record file with an index.
    path_root : str, optional
    imglist : list of [label, path] or [[label, …], path], optional
    shuffle : bool
        Read in a new random order in every epoch (Python's `random`).
    part_index, num_parts : int
        Read one of several parts of equal length; what is left over is not read.
    aug_list : list of Augmenter, optional
        Made by `CreateAugmenter(data_shape, **kwargs)` by default.
    data_name, label_name, dtype : str
    last_batch_handle : {"pad", "discard", "roll_over"}
        What happens with a last batch that is not full: `"pad"` fills it up with the first images of the epoch,
        `"discard"` drops it, `"roll_over"` begins the next epoch with its images.

    Notes
    -----
    Images that cannot be decoded are skipped and named in a warning of the logger `mx_io.image`.
    """

    def __init__(
        self,
        batch_size: int,
        data_shape: Sequence[int],
        label_width: int = 1,
        path_imgrec: str | None = None,
        path_imglist: str | None = None,
        path_root: str | None = None,
        path_imgidx: str | None = None,
        shuffle: bool = False,
        part_index: int = 0,
        num_parts: int = 1,
        aug_list: Sequence[Augmenter] | None = None,
        imglist: Sequence[Sequence[Any]] | None = None,
        data_name: str = "data",
        label_name: str = "softmax_label",
        dtype: str = "float32",
        last_batch_handle: str = "pad",
        **kwargs: Any,
    ) -> None:
        super().__init__(batch_size)
        self.check_data_shape(data_shape)
        if last_batch_handle not in ("pad", "discard", "roll_over"):
            raise ArgumentError(
                "[ImageIter] last_batch_handle: expected 'pad', 'discard' or 'roll_over', "
                f"got {last_batch_handle!r}"
            )
        if not 0 <= part_index < num_parts:
            raise ArgumentError(
                f"[ImageIter] expected 0 <= part_index < num_parts, got {part_index} of {num_parts}"
            )
        self.data_shape = (int(data_shape[0]), int(data_shape[1]), int(data_shape[2]))
        self.label_width = label_width
        self.shuffle = shuffle
        self.dtype = dtypes.numpy_dtype(dtypes.code(dtype))
        self.last_batch_handle = last_batch_handle
        self.auglist = list(CreateAugmenter(self.data_shape, **kwargs) if aug_list is None else aug_list)
        self.path_root = Path(path_root or ".")
        self._record = None if path_imgrec is None else MXRecordIO(path_imgrec, "r")
        entries = None if path_imglist is None else read_list(path_imglist)
        if imglist is not None:
            entries = [_entry(i, item) for i, item in enumerate(imglist)]
        self.imglist: dict[int, ListEntry] | None = None
        if entries is not None:
            self.imglist = {entry.number: entry for entry in entries}
        self._offsets = {} if self._record is None else self._find_records(path_imgidx)
        if self._record is None and self.imglist is None:
            raise ArgumentError("[ImageIter] expected path_imgrec, path_imglist or imglist, got none of them")
        keys = list(self.imglist if self._record is None and self.imglist is not None else self._offsets)
        share = len(keys) // num_parts
        self.seq = keys[part_index * share : (part_index + 1) * share]
        self.cur = 0
        self._carried: list[tuple[Any, Any]] = []
        label_shape = (batch_size,) if label_width == 1 else (batch_size, label_width)
        self.provide_data = [DataDesc(data_name, (batch_size, *self.data_shape), self.dtype.type)]
        self.provide_label = [DataDesc(label_name, label_shape, np.float32, "N")]
        self.reset()

    def _change_data_shape(self, data_shape: Sequence[int]) -> None:
        self.data_shape = (int(data_shape[0]), int(data_shape[1]), int(data_shape[2]))
        self._carried = []  # of the former shape
        name = self.provide_data[0].name
        self.provide_data = [DataDesc(name, (self.batch_size, *self.data_shape), self.dtype.type)]

    def _find_records(self, path_imgidx: str | None) -> dict[int, int]:
        if path_imgidx is not None:
            return read_index(path_imgidx)
        assert self._record is not None
        return dict(enumerate(self._record.offsets()))

    def check_data_shape(self, data_shape: Sequence[int]) -> None:
        """ShapeError unless the shape is (1 or 3, height, width)."""
        if len(data_shape) != 3 or data_shape[0] not in (1, 3):
            raise ShapeError(
                f"[ImageIter] data_shape: expected (1 or 3, height, width), got {tuple(data_shape)}"
            )

    def reset(self) -> None:
        """Begin the next epoch."""
        self._current = None
        self.cur = 0
        if self.shuffle:
            random.shuffle(self.seq)

    def hard_reset(self) -> None:
        """Begin the next epoch without the images that rolled over."""
        self._carried = []
        self.reset()

    def next_sample(self) -> tuple[Any, bytes]:
        """Label and encoded bytes of the next image; StopIteration at the end of the epoch."""
        if self.cur >= len(self.seq):
            raise StopIteration
        key = self.seq[self.cur]
        self.cur += 1
        if self._record is None:
            assert self.imglist is not None
            entry = self.imglist[key]
            return _label(entry), self.read_image(entry.path)
        header, payload = unpack(self._record.read_batch([self._offsets[key]])[0])
        if self.imglist is None:
            return header.label, payload
        return _label(self.imglist[key]), payload

    def read_image(self, fname: str) -> bytes:
        """The bytes of a file below `path_root`."""
        path = self.path_root / fname
        with naming(path):
            return path.read_bytes()

    def imdecode(self, s: bytes) -> NDArray:
        """Decode; grey for one channel."""
        return imdecode(s, 0 if self.data_shape[0] == 1 else 1)

    def check_valid_image(self, data: Sequence[Any]) -> None:
        """FileFormatError unless the image has pixels."""
        if len(data[0].shape) == 0 or 0 in data[0].shape:
            raise FileFormatError(f"[ImageIter] expected an image with pixels, got shape {data[0].shape}")

    def augmentation_transform(self, data: Any) -> Any:
        """The image after all augmenters."""
        for augmenter in self.auglist:
            data = augmenter(data)
        return data

    def postprocess_data(self, datum: Any) -> np.ndarray[Any, Any]:
        """(channels, height, width) of an augmented (height, width, channels) image."""
        return to_numpy(datum).transpose(2, 0, 1)

    def _example(self) -> tuple[Any, np.ndarray[Any, Any]]:
        """Label and planes of the next image that can be decoded."""
        while True:
            label, data = self.next_sample()
            try:
                image = self.imdecode(data)
                self.check_valid_image([image])
                label, image = self._augmented(label, image)
            except FileFormatError as error:
                _LOG.warning("skipping image %s: %s", self.seq[self.cur - 1], error)
                continue
            planes = self.postprocess_data(image)
            if planes.shape != self.data_shape:
                raise ShapeError(
                    f"[ImageIter] expected augmenters to give {self.data_shape}, got {planes.shape}"
                )
            return label, planes

    def _augmented(self, label: Any, image: Any) -> tuple[Any, Any]:
        """Label and image after augmentation."""
        return label, self.augmentation_transform(image)

    def _make(self) -> DataBatch:
        examples, self._carried = self._carried, []
        try:
            while len(examples) < self.batch_size:
                examples.append(self._example())
        except StopIteration:
            if not examples or self.last_batch_handle == "discard":
                raise
            if self.last_batch_handle == "roll_over":
                self._carried = examples
                raise
        pad = self.batch_size - len(examples)
        if pad:
            examples += self._first_examples(pad, examples)
        data = np.stack([planes for _, planes in examples]).astype(self.dtype)
        label = self._stacked_labels([label for label, _ in examples])
        return DataBatch([to_ndarray(data)], [to_ndarray(label)], pad)

    def _first_examples(self, count: int, left: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """The first examples of the epoch, which fill up its last batch; `left` again if they cannot be read anew."""
        found: list[tuple[Any, Any]] = []
        while len(found) < count:
            before, self.cur = len(found), 0
            try:
                while len(found) < count:
                    found.append(self._example())
            except StopIteration:
                if len(found) == before:
                    found.append(left[len(found) % len(left)])
        self.cur = len(self.seq)
        return found

    def _stacked_labels(self, labels: Sequence[Any]) -> np.ndarray[Any, Any]:
        """The labels of a batch."""
        rows = [np.atleast_1d(np.asarray(label, np.float32))[: self.label_width] for label in labels]
        return np.stack(rows).reshape(self.provide_label[0].shape)


def _entry(number: int, item: Sequence[Any]) -> ListEntry:
    *labels, path = item
    flat = np.concatenate([np.atleast_1d(np.asarray(label, np.float64)) for label in labels])
    return ListEntry(number, tuple(flat.tolist()), os.fspath(path))


def _label(entry: ListEntry) -> Any:
    return np.array(entry.labels, np.float32)
