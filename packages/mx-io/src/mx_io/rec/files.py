# SPDX-License-Identifier: Apache-2.0
"""What a record file has: intact records and damaged places, images that cannot be decoded, sizes and labels."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mx_core.errors import ArgumentError, FileFormatError, MXNetError
from mx_core.files import atomic_group
from mx_io import codecs
from mx_io.packing import unpack_view
from mx_io.recordio import MXIndexedRecordIO, MXRecordIO, index_entries

Path = str | os.PathLike[str]
_STEP = 64  # records that are read at once


@dataclass
class Check:
    """What `check` and `repair` found.

    Threads: one at a time.

    Attributes
    ----------
    offsets : list of int
        Of the intact records.
    damages : list of (begin, end, reason)
        Places that belong to no intact record.
    unreadable : list of (offset, reason)
        Intact records whose header or image is damaged; only where they were asked for.
    lost : list of (key, offset)
        Entries of the index that lead to no intact record.
    unlisted : int
        Intact records that the index does not list.
    misread : list of str
        What is wrong with lines of the index that are none.
    """

    offsets: list[int]
    damages: list[tuple[int, int, str]]
    unreadable: list[tuple[int, str]] = field(default_factory=list)
    lost: list[tuple[str, int]] = field(default_factory=list)
    unlisted: int = 0
    misread: list[str] = field(default_factory=list)

    @property
    def intact(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.damages or self.unreadable or self.lost or self.unlisted or self.misread)


@dataclass
class Statistics:
    """Of the intact records of a file.

    Threads: one at a time.

    Attributes
    ----------
    records, payload_bytes, smallest, largest : int
        How many there are, and sizes of their payloads in bytes.
    formats : Counter
        Records by the codec of their image; `none` has those that no codec knows.
    labels : Counter
        Records by their first label.
    label_widths : Counter
        Records by how many labels they have.
    """

    records: int = 0
    payload_bytes: int = 0
    smallest: int = 0
    largest: int = 0
    formats: Counter[str] = field(default_factory=Counter)
    labels: Counter[float] = field(default_factory=Counter)
    label_widths: Counter[int] = field(default_factory=Counter)


def records(record: MXRecordIO, offsets: list[int]) -> Iterator[tuple[int, bytes]]:
    """Offset and payload of records, read some at a time."""
    for begin in range(0, len(offsets), _STEP):
        chosen = offsets[begin : begin + _STEP]
        yield from zip(chosen, record.read_batch(chosen), strict=True)


def index_beside(path: Path) -> str:
    """Where the index of a record file lies, if nothing else is said."""
    return os.path.splitext(path)[0] + ".idx"


def check(path: Path, index: Path | None = None, images: bool = False) -> Check:
    """Read every byte of a record file, and compare its index.

    Parameters
    ----------
    path : path
    index : path, optional
    images : bool
        Decode the image of every record, too.
    """
    with MXRecordIO(path, "r") as record:
        found = Check(*record.scan())
        if images:
            for offset, payload in records(record, found.offsets):
                try:
                    codecs.decode(unpack_view(payload)[1], -1)
                except MXNetError as error:
                    found.unreadable.append((offset, str(error)))
    if index is not None:
        listed, found.misread = _listed(index)
        known = set(found.offsets)
        found.lost = [(key, offset) for key, offset in listed.items() if offset not in known]
        found.unlisted = len(known - set(listed.values()))
    return found


def _listed(index: Path) -> tuple[dict[str, int], list[str]]:
    """Offsets by key of an index, and what is wrong with its other lines."""
    listed: dict[str, int] = {}
    misread = []
    for entry in index_entries(index, str):
        if isinstance(entry, FileFormatError):
            misread.append(str(entry))
        else:
            listed[entry[0]] = entry[1]
    return listed, misread


def _same(one: Path, other: Path) -> bool:
    if os.path.exists(one) and os.path.exists(other):
        return os.path.samefile(one, other)
    return os.path.realpath(one) == os.path.realpath(other)


def repair(
    path: Path, target: Path, target_index: Path, index: Path | None = None, images: bool = False
) -> Check:
    """Copy the intact records of a file into another one, and write its index.

    Keys are those of `index`; without one, and for records that it does not list, they are numbers: from 0, or from
    the first that is not used.

    Parameters
    ----------
    path, target, target_index : path
        `target` and its index appear, or replace older ones, when everything is written.
    index : path, optional
        The index of the damaged file. Lines that are damaged are left out.
    images : bool
        Leave out records whose image cannot be decoded, too.

    Returns
    -------
    Check
        What was wrong with the file.

    Raises
    ------
    ArgumentError
        `target` or its index is the damaged file, or the index of that, or both are one file.
    """
    for each in (target, target_index):
        if _same(path, each):
            raise ArgumentError(
                f"[rec] {os.fspath(each)}: expected another file than the one that is repaired"
            )
        for own in (index, index_beside(path)):
            if own is not None and _same(own, each) and os.path.exists(own):
                raise ArgumentError(
                    f"[rec] {os.fspath(each)}: expected a name that is free, got the index of {os.fspath(path)}; give "
                    "the repaired file another name"
                )
    if _same(target, target_index):
        raise ArgumentError(f"[rec] {os.fspath(target)}: expected a name that its index does not have, too")
    found = check(path, index, images)
    bad = {offset for offset, _ in found.unreadable}
    keys = {} if index is None else {offset: key for key, offset in _listed(index)[0].items()}
    used, number = set(keys.values()), 0
    with (
        MXRecordIO(path, "r") as record,
        atomic_group(target, target_index) as (made, made_index),
        MXIndexedRecordIO(made_index, made, "w", key_type=str) as out,
    ):
        for offset, payload in records(record, found.offsets):
            if offset in bad:
                continue
            key = keys.get(offset)
            if key is None:
                while str(number) in used:
                    number += 1
                key, number = str(number), number + 1
            out.write_idx(key, payload)
    return found


def statistics(path: Path) -> Statistics:
    """Sizes, formats and labels of the intact records of a file."""
    found = Statistics()
    with MXRecordIO(path, "r") as record:
        offsets, _ = record.scan()
        for _, payload in records(record, offsets):
            size = len(payload)
            found.smallest = size if found.records == 0 else min(found.smallest, size)
            found.largest = max(found.largest, size)
            found.records += 1
            found.payload_bytes += size
            try:
                header, image = unpack_view(payload)
            except MXNetError:  # not an image record
                found.formats["none"] += 1
                continue
            found.formats[codecs.recognised(image) or "none"] += 1
            labels: Any = np.atleast_1d(header.label)
            found.label_widths[len(labels)] += 1
            if len(labels):
                found.labels[float(labels[0])] += 1
    return found
