# SPDX-License-Identifier: Apache-2.0
"""Images from record files: decoded, augmented and batched by background threads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mx_core import dtypes
from mx_core.errors import ArgumentError
from mx_io.arrays import to_ndarray
from mx_io.iterators.base import DataBatch, DataDesc, FileIter
from mx_io.iterators.buffers import BufferPool
from mx_io.iterators.documentation import documented
from mx_io.iterators.image_params import NORMALISING, ImageRecordParams, augment_options
from mx_io.iterators.image_source import ImageBuffers, ImageMemory, ImageSource
from mx_io.iterators.order import BatchPlan, ExampleOrder
from mx_io.iterators.prefetch import Prefetcher
from mx_io.iterators.states import whole_number


@documented(ImageRecordParams)
class ImageRecordIter(FileIter):
    """Iterate over the images of a record file.

    Images are read, decoded, augmented and normalised by `preprocess_threads` threads, up to
    `prefetch_buffer` batches ahead; the heavy parts run without the GIL. Order and augmentation depend on the
    seeds alone, not on the number of threads.

    Parameters
    ----------
    data_name, label_name : str
    **kwargs
        MXNet's parameters, as values or text; `ImageRecordParams` describes each. `path_imgrec`, `data_shape`
        and `batch_size` are required.

    Attributes
    ----------
    provide_data, provide_label : list of DataDesc
        Data (batch, channels, height, width); labels (batch,), or (batch, label_width) for more than one.

    Raises
    ------
    ArgumentError, OSError, FileFormatError
        At construction: parameters, a missing file, a damaged file when it has no index.
    FileFormatError
        By `next()`: a record or an image is damaged; names file, record and byte. It is raised again until
        `reset()`.

    Notes
    -----
    The last batch is completed with the first examples of the next pass, `pad` says how many, and the next
    epoch begins after them; with `round_batch=False` the missing slots are zeros and every epoch begins at
    the first example. `batch.index` has the numbers (`IRHeader.id`) of the examples. For one consuming
    thread; a forked child goes on by itself. Without an index file the heads of all records are visited at
    construction.
    """

    _normalises = True
    _default_dtype = "float32"

    def __init__(self, data_name: str = "data", label_name: str = "softmax_label", **kwargs: Any) -> None:
        op = type(self).__name__
        if not self._normalises and (given := sorted(NORMALISING.intersection(kwargs))):
            raise ArgumentError(f"[{op}] cannot find argument {given[0]!r}: pixels are not normalised here")
        p: Any = ImageRecordParams.parse(kwargs, op=op)
        super().__init__(p.batch_size)
        options = augment_options(p, op)
        self._dtype = self._result_dtype(p.dtype, op)
        self._source = ImageSource(p, options, op)
        self._order = ExampleOrder(
            len(self._source.offsets),
            p.batch_size,
            shuffle=p.shuffle or p.shuffle_chunk_size > 0,
            seed=p.seed + p.shuffle_chunk_seed,
            tail="round" if p.round_batch else "pad",
        )
        shape = (p.batch_size, *p.data_shape)
        label_shape = (p.batch_size,) if p.label_width == 1 else (p.batch_size, p.label_width)
        self.provide_data = [DataDesc(data_name, shape, self._dtype.type)]
        self.provide_label = [DataDesc(label_name, label_shape, np.float32)]
        depth = max(1, min(p.prefetch_buffer, 16))
        native = np.uint8 if self._dtype == np.uint8 else np.float32
        memory = ImageMemory(BufferPool(shape, native, keep=depth + 2), p.label_width)
        self._prefetcher: Prefetcher[BatchPlan, ImageBuffers] = Prefetcher(
            memory.allocate, self._source.fill, lambda plan: len(plan.examples), p.preprocess_threads, depth
        )
        self._prefetcher.start(self._order.epoch())

    def _result_dtype(self, dtype: str | None, op: str) -> np.dtype[Any]:
        name = dtype or self._default_dtype
        allowed = ("float32", "float64", "float16", "bfloat16", "uint8") if self._normalises else ("uint8",)
        if name not in allowed:
            raise ArgumentError(f"[{op}] dtype: expected one of {', '.join(allowed)}, got {name!r}")
        return dtypes.numpy_dtype(dtypes.code(name))

    def reset(self) -> None:
        """Begin the next epoch; what was prepared of this one is dropped."""
        self._current = None
        self._prefetcher.start(self._order.epoch())

    def state_dict(self) -> dict[str, Any]:
        """Where the iterator is, between two epochs."""
        return {"position": self._order.position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Begins the epoch that an iterator of the same data was to begin when `state_dict` was called.

        Raises
        ------
        ArgumentError  the state is something else; nothing changes
        """
        self._order.position = whole_number(state, "position", type(self).__name__)
        self.reset()

    def close(self) -> None:
        """End the threads and close the file; the iterator cannot be used afterwards."""
        self._prefetcher.close()
        self._source.close()

    def _make(self) -> DataBatch:
        plan, buffers = self._prefetcher.next()
        self._order.consumed(plan)
        data: npt.NDArray[Any] = buffers.data
        if data.dtype != self._dtype:
            data = data.astype(self._dtype)
        label = buffers.label.reshape(self.provide_label[0].shape)
        return DataBatch([to_ndarray(data)], [to_ndarray(label)], plan.pad, buffers.index)


class ImageRecordUInt8Iter(ImageRecordIter):
    """`ImageRecordIter` whose data are the pixels themselves, uint8 and not normalised."""

    _normalises = False
    _default_dtype = "uint8"
