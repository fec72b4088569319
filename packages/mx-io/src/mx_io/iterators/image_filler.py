# SPDX-License-Identifier: Apache-2.0
"""How an example of a source becomes a place in a batch; free of threads and batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mx_core.context import Context
from mx_core.errors import FileFormatError, MXNetError, ShapeError
from mx_core.signals import let_pass
from mx_io import codecs
from mx_io.arrays import on_host, to_numpy
from mx_io.iterators.augmentation import Augmentation
from mx_io.iterators.buffers import BufferPool
from mx_io.iterators.order import BatchPlan
from mx_io.pipeline.source import Example, Source

#: Images that are decoded in one call; a stop waits for them.
_AT_ONCE = 8


@dataclass(frozen=True)
class ImageBuffers:
    """Arrays of one batch.

    Data (batch, channels, height, width), label (batch, label_width), index (batch,); errors by slot. `owner` is the
    NDArray that has the data's memory, where there is one.
    """

    data: np.ndarray[Any, Any]
    label: npt.NDArray[np.float32]
    index: npt.NDArray[np.uint64]
    errors: dict[int, Exception] = field(default_factory=dict)
    owner: Any = None


class ImageMemory:
    """Makes the buffers of batches; slots that a plan leaves empty are zero. Threads: one at a time.

    With a context the data's memory is that context's, from its storage manager, which has a pool of its own.
    """

    def __init__(
        self, pool: BufferPool, label_width: int, label_fill: float = 0.0, context: Context | None = None
    ) -> None:
        self._pool = pool
        self._context = context
        self._label_width = label_width
        self._label_fill = label_fill

    def allocate(self, plan: BatchPlan) -> ImageBuffers:
        """Buffers for a plan."""
        owner: Any = None
        if self._context is None:
            data = self._pool.take()
        else:
            owner, data = on_host(self._pool.shape, self._context, self._pool.dtype)
        data[len(plan.examples) :] = 0
        label = np.full((len(data), self._label_width), self._label_fill, np.float32)
        return ImageBuffers(data, label, np.zeros(len(data), np.uint64), owner=owner)


class ImageFiller:
    """Examples of a source, decoded and augmented into the slots of a batch.

    Parameters
    ----------
    augmentation : Augmentation
        What happens to each image.
    label_width, seed : int
    skip : bool
        Note errors in the buffers instead of raising them.

    Threads: `fill` is called from several at once.
    """

    def __init__(
        self, source: Source, augmentation: Augmentation, label_width: int, seed: int, skip: bool, op: str
    ) -> None:
        self.op = op
        self._source = source
        self._augmentation = augmentation
        self._label_width = label_width
        self._seed = seed % 2**64
        self._skip = skip
        self._color = {1: 0, 3: 1, 4: -1}[augmentation.shape[0]]
        # Loads the plug-ins here and not on a thread of the pool.
        self._at_once = augmentation.native and self._color != -1 and codecs.jpeg_is_ours()

    def fill(
        self, plan: BatchPlan, out: ImageBuffers, begin: int, end: int, stopped: Callable[[], bool]
    ) -> None:
        """Decode and augment the examples of slots [begin, end)."""
        positions = plan.examples[begin:end].tolist()
        examples = self._read(positions)
        done: set[int] = set()
        for slot, position, example in zip(range(begin, end), positions, examples, strict=True):
            if stopped():
                return
            if self._at_once and (slot - begin) % _AT_ONCE == 0:
                piece = slice(slot, min(slot + _AT_ONCE, end))
                done = self._decoded(examples[slot - begin : piece.stop - begin], plan, out, piece)
            try:
                if isinstance(example, Exception):
                    raise example
                number = int(plan.passes[slot]) % 2**32
                self._one(example, out, slot, position, number, slot in done)
            except MemoryError:
                raise
            except Exception as error:
                let_pass(error)
                told = self._told(position, error)
                if not self._skip:
                    raise told from error
                out.errors[slot] = told

    def _told(self, position: int, error: Exception) -> Exception:
        """The error with the place of the example."""
        place = f"[{self.op}] {self._source.place(position)}"
        if isinstance(error, OSError):
            return MXNetError(f"{place}: {error}")
        kind = type(error) if isinstance(error, MXNetError) else MXNetError
        words = str(error) if isinstance(error, MXNetError) else f"{type(error).__name__}: {error}"
        return kind(f"{place}: {words}")

    def _read(self, positions: list[int]) -> Sequence[Example | Exception]:
        try:
            examples = self._source.read(positions)
        except MemoryError:
            raise
        except Exception as error:
            let_pass(error)
            return [self._read_one(position) for position in positions]
        found = len(examples) if hasattr(examples, "__len__") else f"a {type(examples).__name__}"
        if found != len(positions):
            raise MXNetError(
                f"[{self.op}] {type(self._source).__name__}.read: expected {len(positions)} examples, got "
                f"{found}; the source breaks its contract"
            )
        return examples

    def _read_one(self, position: int) -> Example | Exception:
        try:
            (example,) = self._source.read([position])
        except Exception as error:
            let_pass(error)
            return error
        return example

    def _decoded(
        self, examples: Sequence[Example | Exception], plan: BatchPlan, out: ImageBuffers, piece: slice
    ) -> set[int]:
        """Decodes and augments at once what it can, without the GIL; the slots that are finished."""
        slots = range(piece.start, piece.stop)
        wanted = [(slot, e) for slot, e in zip(slots, examples, strict=True) if isinstance(e, Example)]
        found = {slot: e.data for slot, e in wanted if isinstance(e.data, bytes | memoryview)}
        if len(found) != len(slots):
            return set()
        keys = [self._source.key(position) for position in plan.examples[piece].tolist()]
        if not all(type(key) is int and 0 <= key < 2**64 for key in keys):
            return set()  # `_one` says what is wrong
        numbers = [number % 2**32 for number in plan.passes[piece].tolist()]
        left = self._augmentation.fill(list(found.values()), out.data[piece], self._seed, numbers, keys)
        return set(slots).difference(piece.start + place for place in left)

    def _one(
        self,
        example: Example,
        out: ImageBuffers,
        slot: int,
        position: int,
        number: int,
        decoded: bool = False,
    ) -> None:
        label = example.label
        if self._label_width == 1 and isinstance(label, float | int):
            out.label[slot, 0] = label
        else:
            out.label[slot] = self._label(label)
        out.index[slot] = example.number
        if decoded:
            return
        key = self._key(position)
        image, whole = self._pixels(example.data, number, key)
        self._augmentation.apply(image, out.data[slot], self._seed, number, key, whole)

    def _key(self, position: int) -> int:
        key = self._source.key(position)
        if not 0 <= key < 2**64:
            raise MXNetError(
                f"{type(self._source).__name__}.key: expected 0 to 2**64 - 1, got {key}; the source breaks its contract"
            )
        return key

    def _pixels(self, data: Any, number: int, key: int) -> tuple[npt.NDArray[np.uint8], tuple[int, int]]:
        """The image with the channels that are wanted, and its height and width before it was made smaller."""
        whole = (0, 0)
        if isinstance(data, np.ndarray) or hasattr(data, "asnumpy"):
            image = to_numpy(data)
            if image.ndim != 3 or image.dtype != np.uint8 or image.size == 0:
                raise ShapeError(
                    f"expected uint8 pixels of shape (height, width, channels), got {image.dtype} of {image.shape}"
                )
        else:
            least_scale = self._augmentation.least_scale(self._seed, number, key)
            if least_scale is None:
                image = codecs.decode(data, self._color)
            else:
                asked: list[tuple[int, int]] = []

                def scale(height: int, width: int) -> float:
                    asked.append((height, width))
                    return least_scale(height, width)

                image = codecs.decode(data, self._color, scale)
                whole = asked[-1] if asked else whole
        if self._color == -1 and image.shape[2] != 4:
            image = _with_alpha(image)
        return np.ascontiguousarray(image), whole

    def _label(self, label: Any) -> npt.NDArray[np.float32]:
        values = np.atleast_1d(np.asarray(to_numpy(label), np.float32)).ravel()
        if len(values) < self._label_width:
            raise FileFormatError(f"expected {self._label_width} labels (label_width), got {len(values)}")
        return values[: self._label_width]


def _with_alpha(image: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Four channels, opaque, of an image of one or three."""
    colour = np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image
    return np.concatenate([colour, np.full((*colour.shape[:2], 1), 255, np.uint8)], axis=2)
