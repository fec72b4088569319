# SPDX-License-Identifier: Apache-2.0
"""Images of any source: decoded, augmented and batched by background threads."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mx_core import dtypes
from mx_core.context import Context, cpu_pinned
from mx_core.errors import ArgumentError, DTypeError, FileFormatError, MXNetError
from mx_core.forks import ForkSafeLock
from mx_io.arrays import to_ndarray
from mx_io.iterators.augmentation import Augmentation, augmenters_of
from mx_io.iterators.base import BatchIter, DataBatch, DataDesc
from mx_io.iterators.buffers import BufferPool
from mx_io.iterators.documentation import documented
from mx_io.iterators.image_filler import ImageBuffers, ImageFiller, ImageMemory
from mx_io.iterators.image_params import (
    NORMALISING,
    ImageParams,
    augment_options,
    finishing_options,
    plain_options,
)
from mx_io.iterators.mean_image import mean_image
from mx_io.iterators.order import BatchPlan, ExampleOrder
from mx_io.iterators.prefetch import Prefetcher
from mx_io.pipeline.source import Part, Source

if TYPE_CHECKING:
    from mx_ndarray import NDArray

_LOG = logging.getLogger("mx_io.image")
#: Errors of examples that were left out which an iterator remembers.
_REMEMBERED = 100


class ImageBatchIter(BatchIter):
    """Base of the iterators of images: what is the same whatever the source, the labels and the augmentation are.

    Threads: one takes batches; any may reset or close it meanwhile.
    """

    def __init__(
        self, p: Any, source: Source, filler: Any, data: DataDesc, label: DataDesc, fill: float
    ) -> None:
        super().__init__(p.batch_size)
        self._source = source
        self._filler = filler
        self._dtype = np.dtype(data.dtype)
        self._label_fill = fill
        self._order = ExampleOrder(
            len(source),
            p.batch_size,
            shuffle=p.shuffle or p.shuffle_chunk_size > 0,
            seed=p.seed + p.shuffle_chunk_seed,
            tail="round" if p.round_batch else "pad",
        )
        self.provide_data, self.provide_label = [data], [label]
        #: how many examples could not be read so far, and the last errors; only with `on_error="skip"`
        self.skipped = 0
        self.errors: list[Exception] = []
        self._given = 0
        self._closed = False
        self._lock = ForkSafeLock()  # of the order and the counts; never held while a batch is waited for
        depth = max(1, min(p.prefetch_buffer, 16))
        native = self._dtype if self._dtype in (np.uint8, np.int8) else np.dtype(np.float32)
        pool = BufferPool(data.shape, native, keep=depth + 2)
        self._context: Context | None = (
            cpu_pinned(getattr(p, "device_id", 0)) if p.ctx == "cpu_pinned" else None
        )
        pool.take()  # refused here where no memory holds a batch, before the numbers of so many examples are drawn
        memory = ImageMemory(pool, int(np.prod(label.shape[1:])), fill, self._context)
        self._prefetcher: Prefetcher[BatchPlan, ImageBuffers] = Prefetcher(
            memory.allocate, filler.fill, lambda plan: len(plan.examples), p.preprocess_threads, depth
        )
        self._prefetcher.start(self._order.epoch())

    def reset(self) -> None:
        """Begin the next epoch; what was prepared of this one is dropped."""
        self._current = None
        with self._lock:
            self._given = 0
            self._prefetcher.start(self._order.epoch())

    def state_dict(self) -> dict[str, Any]:
        """Where the iterator is: in an epoch, too."""
        with self._lock:
            return self._order.state()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where an iterator of the same data was when `state_dict` was called; nothing is decoded twice.

        Raises
        ------
        ArgumentError  the state is something else; nothing changes
        """
        with self._lock:
            plans = self._order.resumed(state, type(self).__name__)
            self._given = 0
            self._prefetcher.start(plans)
        self._current = None

    def close(self) -> None:
        """End the threads and close the source; the iterator cannot be used afterwards."""
        self._prefetcher.close()
        with self._lock:
            closed, self._closed = self._closed, True
        if not closed:
            self._source.close()

    def _make(self) -> DataBatch:
        while True:
            epoch = self._order.epochs
            try:
                plan, buffers = self._prefetcher.next()
            except StopIteration:
                self._end(epoch)
                raise
            with self._lock:
                if not self._order.consumed(plan):
                    raise MXNetError(
                        f"[{type(self).__name__}] another thread reset the iterator while this one took a batch"
                    )
                pad = plan.pad + self._left_out(plan, buffers)
                self._given += self.batch_size - pad
            if pad < self.batch_size:
                break
        label = buffers.label.reshape(self.provide_label[0].shape)
        return DataBatch([self._data(buffers)], [self._placed(label)], pad, buffers.index)

    def _data(self, buffers: ImageBuffers) -> NDArray:
        if buffers.data.dtype != self._dtype:
            return self._placed(buffers.data.astype(self._dtype))
        owner: NDArray | None = buffers.owner
        return to_ndarray(buffers.data) if owner is None else owner

    def _placed(self, array: npt.NDArray[Any]) -> NDArray:
        """An NDArray where batches are to be; a copy if that is not plain CPU memory."""
        made = to_ndarray(array)
        return made if self._context is None else made.as_in_context(self._context)

    def _end(self, epoch: int) -> None:
        """Of an epoch, unless another thread has begun the next one; FileFormatError if it gave no example."""
        with self._lock:
            if epoch != self._order.epochs:
                return
            self._order.ended()
            if self.skipped and not self._given:
                raise FileFormatError(
                    f"[{type(self).__name__}] expected an example that can be read, got none of "
                    f"{len(self._source)}; the last error: {self.errors[-1]}"
                ) from self.errors[-1]

    def _left_out(self, plan: BatchPlan, buffers: ImageBuffers) -> int:
        """Moves the examples that could be read to the front of their batch; how many of those that count could not."""
        if not buffers.errors:
            return 0
        counted = self.batch_size - plan.pad
        lost = [error for slot, error in sorted(buffers.errors.items()) if slot < counted]
        for error in lost:
            _LOG.warning("skipping %s", error)
        self.skipped += len(lost)
        self.errors = (self.errors + lost)[-_REMEMBERED:]
        kept = [slot for slot in range(len(plan.examples)) if slot not in buffers.errors]
        for array, fill in ((buffers.data, 0), (buffers.label, self._label_fill), (buffers.index, 0)):
            array[: len(kept)] = array[kept]
            array[len(kept) :] = fill
        return len(lost)


@documented(ImageParams)
class ImageSourceIter(ImageBatchIter):
    """Iterate over the images of a source.

    Images are read, decoded, augmented and normalised by `preprocess_threads` threads, up to `prefetch_buffer`
    batches ahead. Order and augmentation depend on the seeds alone, not on the number of threads or parts.

    Parameters
    ----------
    source : Source
    data_name, label_name : str
    **kwargs
        See below. `data_shape` and `batch_size` are required.

    Attributes
    ----------
    provide_data, provide_label : list of DataDesc
        Data (batch, channels, height, width); labels (batch,), or (batch, label_width) for more than one.
    skipped : int
        Examples that could not be read so far, with `on_error="skip"`; the rest of their batch moves up, and `pad`
        counts them.
    errors : list of Exception
        The last 100 of their errors.

    Raises
    ------
    ArgumentError
        At construction: parameters.
    MXNetError
        By `next()`: an example cannot be read, decoded or augmented; names its place. It is raised again until
        `reset()`.
    """

    _normalises = True
    _default_dtype = "float32"
    _params: type[ImageParams] = ImageParams

    def __init__(
        self, source: Source, data_name: str = "data", label_name: str = "softmax_label", **kwargs: Any
    ) -> None:
        op = type(self).__name__
        steps, p = self._parsed(kwargs, op)
        if not isinstance(source, Source):
            raise DTypeError(f"[{op}] source: expected a Source, got {type(source).__name__}")
        self._begin(source if p.num_parts == 1 == p.part_index + 1 else Part(source, p.part_index, p.num_parts),
                    steps, p, op, data_name, label_name)  # fmt: skip

    def _parsed(self, kwargs: dict[str, Any], op: str) -> tuple[list[Any], Any]:
        """The augmenters, and all other parameters."""
        if not self._normalises and (given := sorted(NORMALISING.intersection(kwargs))):
            raise ArgumentError(f"[{op}] cannot find argument {given[0]!r}: pixels are not normalised here")
        steps = augmenters_of(kwargs.pop("aug_seq", "aug_default"), op)
        return steps, self._params.parse(kwargs, op=op)

    def _begin(
        self, source: Source, steps: list[Any], p: Any, op: str, data_name: str, label_name: str
    ) -> None:
        if len(source) < 1:
            raise ArgumentError(
                f"[{op}] {type(source).__name__}: expected examples in part {p.part_index} of {p.num_parts}, got none"
            )
        dtype = result_dtype(p.dtype, self._normalises, self._default_dtype, op)
        filler = made_filler(source, steps, p, op)
        label_shape = (p.batch_size,) if p.label_width == 1 else (p.batch_size, p.label_width)
        super().__init__(
            p,
            source,
            filler,
            DataDesc(data_name, (p.batch_size, *p.data_shape), dtype.type),
            DataDesc(label_name, label_shape, np.float32),
            0.0,
        )


def made_filler(source: Source, steps: list[Any], p: Any, op: str) -> ImageFiller:
    """What decodes and augments the images of a source as parameters say; it may compute a mean image before."""
    options, finishing = augment_options(p, op), finishing_options(p)
    seed = p.seed if p.seed_aug is None else p.seed_aug
    skip = p.on_error == "skip"
    mean = None
    if p.mean_img:
        plain = Augmentation(plain_options(options, p), finishing_options(_Plain(p.data_shape)), steps)
        mean = mean_image(p, source, ImageFiller(source, plain, p.label_width, seed, skip, op), op)
    augmentation = Augmentation(options, finishing, steps, mean, p.scaled_decoding)
    return ImageFiller(source, augmentation, p.label_width, seed, skip, op)


def result_dtype(dtype: str | None, normalises: bool, default: str, op: str) -> np.dtype[Any]:
    """The element type of data that parameters ask for."""
    name = dtype or default
    allowed = ("float32", "float64", "float16", "bfloat16", "uint8", "int8") if normalises else (default,)
    if name not in allowed:
        raise ArgumentError(f"[{op}] dtype: expected one of {', '.join(allowed)}, got {name!r}")
    return dtypes.numpy_dtype(dtypes.code(name))


class _Plain:
    """Parameters that normalise nothing."""

    mirror = rand_mirror = False
    max_random_contrast = max_random_illumination = mean_r = mean_g = mean_b = mean_a = 0.0
    scale = std_r = std_g = std_b = std_a = 1.0

    def __init__(self, data_shape: tuple[int, ...]) -> None:
        self.data_shape = data_shape
