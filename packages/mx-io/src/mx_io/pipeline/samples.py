# SPDX-License-Identifier: Apache-2.0
"""Images of a source as samples by index, which a loader may ask for a whole batch at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mx_core.errors import ArgumentError, DTypeError, IndexOutOfBoundsError
from mx_io.arrays import to_ndarray
from mx_io.iterators.augmentation import augmenters_of
from mx_io.iterators.buffers import BufferPool
from mx_io.iterators.documentation import documented
from mx_io.iterators.image_batches import made_filler, result_dtype
from mx_io.iterators.image_filler import ImageBuffers
from mx_io.iterators.image_params import ImageParams
from mx_io.iterators.order import BatchPlan
from mx_io.pipeline.source import Source

if TYPE_CHECKING:
    from mx_ndarray import NDArray

#: What a loader decides.
_OF_LOADERS = frozenset(
    ("batch_size", "shuffle", "shuffle_chunk_size", "shuffle_chunk_seed", "num_parts", "part_index",
     "preprocess_threads", "prefetch_buffer", "round_batch", "on_error")
)  # fmt: skip
#: Batches whose memory is used again.
_KEPT = 8


@documented(ImageParams)
class ImageSamples:
    """Samples (data, label) of the images of a source, decoded and augmented as by `ImageSourceIter`.

    It is a data set for `gluon.data.DataLoader`, which decides order, batches and workers. The loader gets whole
    batches by `batch`, whose images are decoded without the GIL: `thread_pool=True` suits it.

    Threads: any.

    Parameters
    ----------
    source : Source
    **kwargs
        See below; `data_shape` is required. Those of order, batches and threads are the loader's.

    Raises
    ------
    ArgumentError
        At construction: parameters.
    MXNetError
        By `batch` and `[]`: an example cannot be read, decoded or augmented; names its place.

    Notes
    -----
    Random choices depend on the seeds, the position in the source, and a number that is drawn for each batch: the
    loader's, or one of `numpy.random`.

    Examples
    --------
    >>> import numpy as np
    >>> from mx_io.pipeline import Example, ImageSamples, Source
    >>> class Squares(Source):
    ...     def __len__(self):
    ...         return 5
    ...
    ...     def read(self, positions):
    ...         return [Example(np.full((4, 4, 3), i * i, np.uint8), float(i), i) for i in positions]
    >>> data, label = ImageSamples(Squares(), data_shape=(3, 4, 4)).batch([3, 1])
    >>> data.shape, label.asnumpy().tolist()
    ((2, 3, 4, 4), [3.0, 1.0])
    """

    def __init__(self, source: Source, **kwargs: Any) -> None:
        op = type(self).__name__
        if not isinstance(source, Source):
            raise DTypeError(f"[{op}] source: expected a Source, got {type(source).__name__}")
        if given := sorted(_OF_LOADERS.intersection(kwargs)):
            raise ArgumentError(f"[{op}] cannot find argument {given[0]!r}: the loader decides it")
        if kwargs.get("ctx") == "cpu_pinned":
            raise ArgumentError(
                f"[{op}] ctx: expected cpu or gpu, got 'cpu_pinned': DataLoader has pin_memory"
            )
        steps = augmenters_of(kwargs.pop("aug_seq", "aug_default"), op)
        p: Any = ImageParams.parse({**kwargs, "batch_size": 1}, op=op)
        self._source = source
        self._dtype = result_dtype(p.dtype, True, "float32", op)
        self._filler = made_filler(source, steps, p, op)
        self._shape, self._label_width = tuple(p.data_shape), p.label_width
        self._pool: BufferPool | None = None

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> tuple[NDArray, Any]:
        data, label = self.batch([index])
        return data[0], label.asnumpy()[0]

    def batch(self, indices: Sequence[int], seed: int | None = None) -> list[NDArray]:
        """Data (batch, channels, height, width) and labels (batch,), or (batch, label_width), of several samples.

        Parameters
        ----------
        indices : sequence of int
        seed : int, optional
            What random choices depend on, besides the positions; drawn from `numpy.random` by default.
        """
        positions = np.array(indices, np.int64)
        count = len(self)
        outside = positions[(positions < -count) | (positions >= count)]
        if outside.size:
            raise IndexOutOfBoundsError(
                f"[{type(self).__name__}] index: expected -{count} to {count - 1}, got {outside[0]}"
            )
        number = int(np.random.randint(2**32, dtype=np.uint64)) if seed is None else seed
        plan = BatchPlan(positions % count, np.full(len(positions), number % 2**32), 0, 0)
        buffers = ImageBuffers(
            self._memory(len(positions)),
            np.zeros((len(positions), self._label_width), np.float32),
            np.zeros(len(positions), np.uint64),
        )
        self._filler.fill(plan, buffers, 0, len(positions), _never)
        data = buffers.data
        if data.dtype != self._dtype:
            data = data.astype(self._dtype)
        label = buffers.label[:, 0] if self._label_width == 1 else buffers.label
        return [to_ndarray(data), to_ndarray(np.ascontiguousarray(label))]

    def _memory(self, count: int) -> np.ndarray[Any, Any]:
        shape = (count, *self._shape)
        native = self._dtype if self._dtype in (np.uint8, np.int8) else np.dtype(np.float32)
        pool = self._pool
        if pool is None or pool.shape[0] < count:
            pool = self._pool = BufferPool(shape, native, _KEPT)
        return pool.take() if pool.shape == shape else np.empty(shape, native)


def _never() -> bool:
    return False
