# SPDX-License-Identifier: Apache-2.0
"""The records an image iterator reads, and how one becomes an example; free of threads and batches."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mx_core.errors import ArgumentError, FileFormatError, MXNetError
from mx_io import codecs
from mx_io.im2rec.listing import read_list
from mx_io.iterators.buffers import BufferPool
from mx_io.iterators.order import BatchPlan
from mx_io.packing import unpack_view
from mx_io.recordio import MXRecordIO, read_index


@dataclass(frozen=True)
class ImageBuffers:
    """Arrays of one batch.

    Data (batch, channels, height, width), label (batch, label_width), index (batch,).
    """

    data: np.ndarray[Any, Any]
    label: npt.NDArray[np.float32]
    index: npt.NDArray[np.uint64]


class ImageMemory:
    """Makes the buffers of batches; slots that a plan leaves empty are zero. Threads: one at a time."""

    def __init__(self, pool: BufferPool, label_width: int) -> None:
        self._pool = pool
        self._label_width = label_width

    def allocate(self, plan: BatchPlan) -> ImageBuffers:
        """Buffers for a plan."""
        data = self._pool.take()
        data[len(plan.examples) :] = 0
        label = np.zeros((len(data), self._label_width), np.float32)
        return ImageBuffers(data, label, np.zeros(len(data), np.uint64))


class ImageSource:
    """Records of one part of a file, decoded and augmented into the slots of a batch.

    Threads: `fill` is called from several at once.
    """

    def __init__(self, p: Any, options: Any, op: str) -> None:
        self.op = op
        self.path = p.path_imgrec
        codecs.codecs()  # loads the plug-ins here and not on a thread of the pool
        self._record = MXRecordIO(p.path_imgrec, "r")
        self.offsets = self._part(p)
        if not self.offsets:
            raise ArgumentError(
                f"[{op}] {self.path}: expected records in part {p.part_index} of {p.num_parts}, got none"
            )
        self._options = options
        self._label_width = p.label_width
        self._color = {1: 0, 3: 1, 4: -1}[options.channels]
        self._seed = (p.seed if p.seed_aug is None else p.seed_aug) % 2**64
        self._labels = _labels_of(p.path_imglist, p.label_width, op) if p.path_imglist else None

    def _part(self, p: Any) -> list[int]:
        if p.part_index >= p.num_parts:
            raise ArgumentError(
                f"[{self.op}] expected part_index < num_parts, got {p.part_index} of {p.num_parts}"
            )
        if not p.path_imgidx:
            return self._record.offsets(p.part_index, p.num_parts)
        offsets = list(read_index(p.path_imgidx, str).values())
        share = -(-len(offsets) // p.num_parts)
        return offsets[p.part_index * share : (p.part_index + 1) * share]

    def close(self) -> None:
        """Close the record file."""
        self._record.close()

    def fill(
        self, plan: BatchPlan, out: ImageBuffers, begin: int, end: int, stopped: Callable[[], bool]
    ) -> None:
        """Decode and augment the examples of slots [begin, end)."""
        examples = plan.examples[begin:end].tolist()
        records = self._read(examples)
        for slot, example, record in zip(range(begin, end), examples, records, strict=True):
            if stopped():
                return
            try:
                self._one(record, out, slot, example, int(plan.passes[slot]))
            except MXNetError as error:
                raise type(error)(f"{self._place(example)}: {error}") from error

    def _read(self, examples: list[int]) -> list[bytes]:
        try:
            return self._record.read_batch([self.offsets[example] for example in examples])
        except FileFormatError:
            for example in examples:  # which of them
                try:
                    self._record.read_batch([self.offsets[example]])
                except FileFormatError as error:
                    raise FileFormatError(f"{self._place(example)}: {error}") from error
            raise

    def _place(self, example: int) -> str:
        return f"[{self.op}] {os.fspath(self.path)}: record {example} at byte {self.offsets[example]}"

    def _one(self, record: bytes, out: ImageBuffers, slot: int, example: int, number: int) -> None:
        header, payload = unpack_view(record)
        out.index[slot] = header.id
        if header.flag == 0 and self._label_width == 1 and self._labels is None:
            out.label[slot, 0] = header.label
        else:
            out.label[slot] = self._label(header.label, header.id)
        image = codecs.decode(payload, self._color)
        if self._color == -1 and image.shape[2] != 4:
            image = _with_alpha(image)
        self._options.apply(
            np.ascontiguousarray(image), out.data[slot], self._seed, number % 2**32, self.offsets[example]
        )

    def _label(self, label: Any, identity: int) -> npt.NDArray[np.float32]:
        if self._labels is not None:
            found = self._labels.get(identity)
            if found is None:
                raise ArgumentError(f"expected a line for number {identity} in path_imglist, found none")
            return found
        values = np.atleast_1d(np.asarray(label, np.float32))
        if len(values) < self._label_width:
            raise FileFormatError(f"expected {self._label_width} labels (label_width), got {len(values)}")
        return values[: self._label_width]


def _with_alpha(image: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Four channels, opaque, of an image of one or three."""
    colour = np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image
    return np.concatenate([colour, np.full((*colour.shape[:2], 1), 255, np.uint8)], axis=2)


def _labels_of(path: str, width: int, op: str) -> dict[int, npt.NDArray[np.float32]]:
    labels = {}
    for entry in read_list(path):
        if len(entry.labels) < width:
            raise FileFormatError(
                f"[{op}] {path}: number {entry.number}: expected {width} labels, got {len(entry.labels)}"
            )
        labels[entry.number] = np.array(entry.labels[:width], np.float32)
    return labels
