# SPDX-License-Identifier: Apache-2.0
"""Records of a RecordIO file as a source."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from mx_core.errors import ArgumentError, FileFormatError
from mx_io.im2rec.listing import read_list
from mx_io.packing import unpack_view
from mx_io.pipeline.source import Example, Source
from mx_io.recordio import MXRecordIO, read_index


class RecordSource(Source):
    """The image records of one part of a file.

    Parameters
    ----------
    path : path
    path_imgidx : path, optional
        Index file; parts are then equal numbers of records instead of bytes.
    path_imglist : path, optional
        List file whose labels replace those of the records, by number.
    part_index, num_parts : int
    skip : bool
        Without an index, leave out what belongs to no intact record instead of raising an error.
    op : str
        Name for messages.

    Attributes
    ----------
    offsets : ndarray of int64, shape (records,)
        Byte offset of each record.
    damages : list of (int, int, str)
        Begin, end and reason of each place that was left out.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        path_imgidx: str | os.PathLike[str] | None = None,
        path_imglist: str | os.PathLike[str] | None = None,
        part_index: int = 0,
        num_parts: int = 1,
        skip: bool = False,
        op: str = "RecordSource",
    ) -> None:
        self.path = os.fspath(path)
        self._op = op
        if not 0 <= part_index < num_parts:
            raise ArgumentError(f"[{op}] expected part_index < num_parts, got {part_index} of {num_parts}")
        self._record = MXRecordIO(path, "r")
        self.damages: list[tuple[int, int, str]] = []
        self.offsets: npt.NDArray[np.int64]
        if path_imgidx:
            known = indexed_offsets(path_imgidx)
            share = -(-len(known) // num_parts)
            self.offsets = known[part_index * share : (part_index + 1) * share]
        elif skip:
            found, self.damages = self._record.scan(part_index, num_parts)
            self.offsets = np.array(found, np.int64)
        else:
            self.offsets = self._record._offset_array(part_index, num_parts)
        if not len(self.offsets):
            raise ArgumentError(
                f"[{op}] {self.path}: expected records in part {part_index} of {num_parts}, got none"
            )
        self._labels = _labels_of(path_imglist) if path_imglist else None

    def __len__(self) -> int:
        return len(self.offsets)

    def read(self, positions: Sequence[int]) -> list[Example]:
        records = self._record.read_batch(self.offsets[list(positions)].tolist())
        return [self._example(record) for record in records]

    def _example(self, record: bytes) -> Example:
        header, payload = unpack_view(record)
        label: Any = header.label
        if self._labels is not None:
            label = self._labels.get(header.id)
            if label is None:
                raise ArgumentError(f"expected a line for number {header.id} in path_imglist, found none")
        return Example(payload, label, header.id)

    def place(self, position: int) -> str:
        return f"{self.path}: record {position} at byte {self.offsets[position]}"

    def key(self, position: int) -> int:
        return int(self.offsets[position])

    def check_labels(self, width: int) -> None:
        """FileFormatError if a line of the list has fewer labels."""
        for number, labels in (self._labels or {}).items():
            if len(labels) < width:
                raise FileFormatError(
                    f"[{self._op}] path_imglist: number {number}: expected {width} labels, got {len(labels)}"
                )

    def close(self) -> None:
        self._record.close()


def indexed_offsets(path: str | os.PathLike[str]) -> npt.NDArray[np.int64]:
    """The offsets of an index file, in its order; a key used twice has the later record, in the place of the first."""
    with suppress(ValueError, UnicodeDecodeError), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an empty file
        table = np.loadtxt(path, np.int64, delimiter="\t", ndmin=2, comments=None)
        if table.shape[1:] == (2,) and table.min() >= 0 and _differ(table[:, 0]):
            return np.ascontiguousarray(table[:, 1])
    return np.array(list(read_index(path, str).values()), np.int64)  # or it says what is wrong


def _differ(keys: npt.NDArray[np.int64]) -> bool:
    return bool((np.diff(keys) > 0).all()) or len(np.unique(keys)) == len(keys)


def _labels_of(path: str | os.PathLike[str]) -> dict[int, npt.NDArray[np.float32]]:
    return {entry.number: np.array(entry.labels, np.float32) for entry in read_list(path)}
