# SPDX-License-Identifier: Apache-2.0
"""The mean image of a data set, read from a file or computed and written to it."""

from __future__ import annotations

import logging
import os
from typing import Any

import numpy as np
import numpy.typing as npt

from mx_core.errors import FileFormatError, MXNetError
from mx_io.arrays import to_numpy
from mx_io.iterators.buffers import BufferPool
from mx_io.iterators.image_filler import ImageFiller, ImageMemory
from mx_io.iterators.order import ExampleOrder
from mx_io.iterators.prefetch import Prefetcher
from mx_io.pipeline.source import Source

#: The array's name in the file.
_NAME = "mean_img"
_LOG = logging.getLogger("mx_io.image")


def mean_image(p: Any, source: Source, filler: ImageFiller, op: str) -> npt.NDArray[np.float32]:
    """The mean image (channels, height, width) of the file `p.mean_img`, which is written if there is none.

    What is computed is the mean of all images after augmentation, without mirroring and normalising.

    Raises
    ------
    FileFormatError  the file has no array of that shape
    """
    from mx_ndarray import nd

    if os.path.exists(p.mean_img):
        return _checked(nd.load(p.mean_img), p, op)
    _LOG.info("[%s] %s: computing the mean of %d images", op, p.mean_img, len(source))
    mean = _computed(p, source, filler, op)
    nd.save(p.mean_img, {_NAME: nd.array(mean)})
    return mean


def _checked(found: Any, p: Any, op: str) -> npt.NDArray[np.float32]:
    array = found.get(_NAME) if isinstance(found, dict) else found[0] if len(found) == 1 else None
    if array is None or tuple(array.shape) != tuple(p.data_shape):
        got = "none" if array is None else f"one of shape {tuple(array.shape)}"
        raise FileFormatError(
            f"[{op}] {p.mean_img}: expected an array {_NAME!r} of shape {tuple(p.data_shape)}, got {got}; delete the "
            "file to have it computed"
        )
    return np.ascontiguousarray(to_numpy(array), np.float32)


def _computed(p: Any, source: Source, filler: ImageFiller, op: str) -> npt.NDArray[np.float32]:
    order = ExampleOrder(len(source), p.batch_size, tail="pad")
    memory = ImageMemory(BufferPool((p.batch_size, *p.data_shape), np.float32, keep=4), p.label_width)
    batches: Any = Prefetcher(
        memory.allocate, filler.fill, lambda plan: len(plan.examples), p.preprocess_threads, depth=2
    )
    total, count = np.zeros(p.data_shape, np.float64), 0
    try:
        batches.start(order.epoch())
        while True:
            try:
                plan, buffers = batches.next()
            except StopIteration:
                break
            good = [slot for slot in range(len(plan.examples)) if slot not in buffers.errors]
            total += buffers.data[good].sum(0, dtype=np.float64)
            count += len(good)
    finally:
        batches.close()
    if count == 0:
        raise MXNetError(
            f"[{op}] {p.mean_img}: expected an image that can be read, got none of {len(source)}"
        )
    mean: npt.NDArray[np.float32] = (total / count).astype(np.float32)
    return mean
