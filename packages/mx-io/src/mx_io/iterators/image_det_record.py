# SPDX-License-Identifier: Apache-2.0
"""Images with boxes around objects from record files, by background threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from mx_core import dtypes
from mx_core.errors import ArgumentError, FileFormatError, MXNetError
from mx_io import _core
from mx_io.arrays import to_numpy
from mx_io.image.detection import labels
from mx_io.iterators.augmentation import Augmentation
from mx_io.iterators.base import DataDesc
from mx_io.iterators.det_params import ImageDetRecordParams, crop_kinds
from mx_io.iterators.det_steps import DetSteps
from mx_io.iterators.documentation import documented
from mx_io.iterators.image_batches import ImageBatchIter
from mx_io.iterators.image_filler import ImageBuffers, ImageFiller
from mx_io.iterators.image_record import record_source
from mx_io.iterators.mean_image import mean_image
from mx_io.pipeline.source import Example, Source

#: Numbers before the labels of an example: channels, height, width, and how many labels follow.
_HEAD = 4
_STEP = 256  # records that are read at once to find the longest label


@documented(ImageDetRecordParams)
class ImageDetRecordIter(ImageBatchIter):
    """Iterate over the images of a record file, with boxes around objects.

    The label of an example is a row: channels, height and width of the image in the batch, the number of labels, the
    labels, and `label_pad_value` up to `label_pad_width` labels. Labels are those of the record: the length of the
    head (2 or more), the numbers of an object (5 or more), the rest of the head, and the objects: class, left, upper,
    right and lower border as shares of the image, and what else belongs to one.

    Parameters
    ----------
    data_name, label_name : str
    **kwargs
        See below. `data_shape` and `batch_size` are required.

    Raises
    ------
    ArgumentError, OSError, FileFormatError
        At construction: parameters, a missing file, a damaged file, a label longer than `label_pad_width`.
    FileFormatError
        By `next()`: a record, an image or a label is damaged; names file, record and byte.

    Notes
    -----
    All records are read at construction, to find the longest label; with an image that is smaller than the data's
    shape (`resize_mode`), the rest is 0. For one consuming thread.
    """

    def __init__(self, data_name: str = "data", label_name: str = "softmax_label", **kwargs: Any) -> None:
        op = type(self).__name__
        p: Any = ImageDetRecordParams.parse(kwargs, op=op)
        shape = p.data_shape
        if len(shape) != 3 or shape[0] not in (1, 3, 4) or min(shape) < 1 or max(shape) > 32768:
            raise ArgumentError(f"[{op}] data_shape: expected (1, 3 or 4, height, width), got {tuple(shape)}")
        name = p.dtype or "float32"
        if name not in ("float32", "float64", "float16", "bfloat16"):
            raise ArgumentError(f"[{op}] dtype: expected float32, float64, float16 or bfloat16, got {name!r}")
        kinds = crop_kinds(p, op)
        source = record_source(p, op)
        width = _longest_label(source, p, op)
        if p.label_pad_width and width > p.label_pad_width:
            raise ArgumentError(
                f"[{op}] label_pad_width: expected {width} or more, as the longest label has, got {p.label_pad_width}"
            )
        width = (p.label_pad_width or width) + _HEAD
        steps = DetSteps(p, kinds)

        def filler(mean: npt.NDArray[np.float32] | None, options: Any) -> DetFiller:
            return DetFiller(source, Augmentation(options, options, mean=mean), steps, width, p, op)

        mean = None
        if p.mean_img:
            counted = SimpleNamespace(**{name: getattr(p, name) for name in _MEAN_NEEDS}, label_width=width)
            mean = mean_image(counted, source, filler(None, _options(shape)), op)
        super().__init__(
            p,
            source,
            filler(mean, _options(shape, p)),
            DataDesc(data_name, (p.batch_size, *shape), dtypes.numpy_dtype(dtypes.code(name)).type),
            DataDesc(label_name, (p.batch_size, width), np.float32),
            p.label_pad_value,
        )


_MEAN_NEEDS = ("mean_img", "data_shape", "batch_size", "preprocess_threads")


def _options(shape: tuple[int, ...], p: Any = None) -> _core.AugmentOptions:
    """Of normalising alone; none without parameters."""
    options: Any = _core.AugmentOptions()
    options.channels, options.height, options.width = shape
    if p is not None:
        options.scale = p.scale
        options.set_mean([p.mean_r, p.mean_g, p.mean_b, p.mean_a])
        options.set_std([std or 1.0 for std in (p.std_r, p.std_g, p.std_b, p.std_a)])
    made: _core.AugmentOptions = options
    return made


def _longest_label(source: Source, p: Any, op: str) -> int:
    """How many labels the example with most of them has, of those that are read and not skipped."""
    longest = 0
    skip = p.on_error == "skip"
    for begin in range(0, len(source), _STEP):
        positions = range(begin, min(begin + _STEP, len(source)))
        for position, example in _read(source, positions, skip, op):
            row = label_row(example)
            try:
                if p.label_width > 0 and len(row) != p.label_width:
                    raise wrong_width(p.label_width, row)
                if skip:  # else the batch with it is an error
                    split_label(row)
            except FileFormatError as error:
                if not skip:
                    raise FileFormatError(f"[{op}] {source.place(position)}: {error}") from error
            else:
                longest = max(longest, len(row))
    return longest


def label_row(example: Example) -> npt.NDArray[np.float32]:
    """The label of an example as the file has it."""
    return np.ravel(np.asarray(to_numpy(example.label), np.float32))


def wrong_width(wanted: int, row: npt.NDArray[np.float32]) -> FileFormatError:
    """What is said of a label that has not as many numbers as `label_width` wants."""
    return FileFormatError(f"expected {wanted} labels (label_width), got {len(row)}")


def _read(source: Source, positions: Sequence[int], skip: bool, op: str) -> Iterator[tuple[int, Example]]:
    """Positions and examples; where one cannot be read, they are read one by one, and it is left out or named."""
    try:
        examples = source.read(positions)
    except (MXNetError, OSError):
        pass
    else:
        yield from zip(positions, examples, strict=True)
        return
    for position in positions:
        try:
            (example,) = source.read([position])
        except OSError as error:
            if not skip:
                raise MXNetError(f"[{op}] {source.place(position)}: {error}") from error
        except MXNetError as error:
            if not skip:
                raise type(error)(f"[{op}] {source.place(position)}: {error}") from error
        else:
            yield position, example


class DetFiller(ImageFiller):
    """Examples with boxes, decoded and augmented into the slots of a batch. Threads: as of `ImageFiller`."""

    def __init__(
        self, source: Source, augmentation: Augmentation, steps: DetSteps, width: int, p: Any, op: str
    ) -> None:
        super().__init__(source, augmentation, width, p.seed, p.on_error == "skip", op)
        self._at_once = False  # boxes change with their image
        self._steps = steps
        self._wanted = p.label_width
        self._pad_value = p.label_pad_value

    def _one(
        self,
        example: Example,
        out: ImageBuffers,
        slot: int,
        position: int,
        number: int,
        decoded: bool = False,
    ) -> None:
        row = label_row(example)
        if self._wanted > 0 and len(row) != self._wanted:
            raise wrong_width(self._wanted, row)
        head, objects = split_label(row)
        key = self._key(position)
        image, _ = self._pixels(example.data, number, key)
        draw = np.random.Generator(np.random.Philox(key=[self._seed, number], counter=[0, 0, 0, key]))
        image, objects = self._steps.apply(image, objects, draw)
        height, width, channels = image.shape
        canvas = image
        if (channels, height, width) != self._augmentation.shape:
            canvas = np.zeros((*self._augmentation.shape[1:], channels), np.uint8)
            canvas[:height, :width] = image
        self._augmentation.apply(canvas, out.data[slot], self._seed, number, key)
        out.data[slot, :, height:] = 0
        out.data[slot, :, :, width:] = 0
        values = np.concatenate([[channels, height, width, len(head) + objects.size], head, objects.ravel()])
        if len(values) > self._label_width:
            raise FileFormatError(
                f"expected at most {self._label_width - _HEAD} labels, got {len(values) - _HEAD}"
            )
        out.label[slot] = self._pad_value
        out.label[slot, : len(values)] = values
        out.index[slot] = example.number


def split_label(row: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Head and objects with an area (objects, 5 or more) of a label as files have it.

    Raises
    ------
    FileFormatError  the row is too short, or is not divided evenly into objects
    """
    if row.size < 2:
        raise FileFormatError(f"label: expected a head of 2 or more numbers, got {row.size}")
    head, width = float(row[0]), float(row[1])
    if not (2 <= head <= row.size and 5 <= width < 2**20 and (row.size - int(head)) % int(width) == 0):
        raise FileFormatError(
            f"label: expected a head of 2 or more and objects of 5 or more numbers in {row.size}, got a head of "
            f"{head:g} and objects of {width:g}"
        )
    objects = row[int(head) :].reshape(-1, int(width))
    return row[: int(head)], objects[labels.with_area(objects)]
