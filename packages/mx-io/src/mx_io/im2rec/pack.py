# SPDX-License-Identifier: Apache-2.0
"""Packing listed images into a record file and its index, with several threads and in the list's order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mx_core.errors import ArgumentError, FileFormatError, MXNetError
from mx_core.files import atomic_group
from mx_io import codecs, pixels
from mx_io.im2rec.listing import ListEntry, read_list
from mx_io.im2rec.resume import Unfinished, digest
from mx_io.packing import IRHeader
from mx_io.packing import pack as pack_record
from mx_io.recordio import MXIndexedRecordIO


@dataclass
class PackReport:
    """What `pack` did.

    Threads: one at a time.

    Attributes
    ----------
    record, index : Path
        The files written.
    written : int
        Number of records.
    skipped : list of (path, error)
        Images that could not be packed, with the reason.
    """

    record: Path
    index: Path
    written: int = 0
    skipped: list[tuple[str, Exception]] = field(default_factory=list)


@dataclass(frozen=True)
class Encoding:
    """How an image file becomes a record; the options of `pack`."""

    resize: int = 0
    center_crop: bool = False
    quality: int = 95
    encoding: str = ".jpg"
    color: int = 1
    pass_through: bool = False
    pack_label: bool = False

    def record(self, root: Path, entry: ListEntry) -> bytes:
        """The record of one image; called from several threads at once."""
        data = (root / entry.path).read_bytes()
        label: Any = entry.labels if self.pack_label and len(entry.labels) > 1 else entry.labels[0]
        if not self.pass_through:
            data = self._encode(data)
        return pack_record(IRHeader(0, label, entry.number, 0), data)

    def _encode(self, data: bytes) -> bytes:
        image = codecs.decode(data, self.color)
        if self.center_crop:
            image = pixels.center_square(image)
        if self.resize:
            image = pixels.resize_short(image, self.resize)
        return codecs.encode(image, self.encoding, self.quality)


def pack(
    lst: str | os.PathLike[str] | Iterable[ListEntry],
    root: str | os.PathLike[str],
    prefix: str | os.PathLike[str] | None = None,
    *,
    num_thread: int = 1,
    on_error: str = "raise",
    resume: bool = False,
    progress: Callable[[int], None] | None = None,
    **encoding: Any,
) -> PackReport:
    """Pack the images of a list into `prefix.rec` and `prefix.idx`.

    Parameters
    ----------
    lst : path of a list file, or ListEntry objects
    root : str or path
        Folder that the paths of the list are relative to.
    prefix : str or path, optional
        The list file's path without `.lst` by default.
    num_thread : int
        Threads that read, decode and encode. Records keep the list's order.
    on_error : {"raise", "skip"}
        What happens with an image that cannot be read.
    resume : bool
        Keep what is done in a folder `prefix.rec.unfinished` when the process ends before all is packed, and go on with
        what a process before has left there. Images that are skipped stay skipped.
    progress : callable, optional
        Called with 1 for each image done.
    resize : int
        New length of the shorter side; 0 keeps the size.
    center_crop : bool
        Cut the largest square from the middle first.
    quality : int
        1 to 100 for JPEG, compression level 0 to 9 for PNG.
    encoding : str
        `".jpg"`, `".png"` or what another installed codec writes.
    color : {1, 0, -1}
        Three channels, grey, or as stored.
    pass_through : bool
        Pack the files as they are.
    pack_label : bool
        Pack all labels of the list, not only the first.

    Raises
    ------
    FileFormatError, OSError
        An image is bad (the message names it) and `on_error` is `"raise"`. No file is left behind: both
        appear, or replace older ones, when everything is written. A process killed in that moment may
        leave the records without an index, never with that of others.

    Notes
    -----
    A list is trusted: its paths may be absolute, lead out of `root` or through links, and any file that they
    name is read (and with `pass_through` copied into the records).
    """
    if on_error not in ("raise", "skip") or num_thread < 1:
        raise ArgumentError(
            "[im2rec] expected on_error 'raise' or 'skip' and num_thread >= 1, "
            f"got {on_error!r}, {num_thread}"
        )
    if isinstance(lst, str | os.PathLike):
        prefix = Path(lst).with_suffix("") if prefix is None else prefix
        entries: Iterable[ListEntry] = read_list(lst)
    elif prefix is None:
        raise ArgumentError("[im2rec] prefix: expected a path when the list is not a file, got None")
    else:
        entries = lst
    how = Encoding(**encoding)
    report = PackReport(Path(f"{os.fspath(prefix)}.rec"), Path(f"{os.fspath(prefix)}.idx"))
    if resume:
        _resumed(list(entries), Path(root), how, num_thread, on_error, progress, report)
        return report
    with (
        atomic_group(report.record, report.index) as (records, index),
        MXIndexedRecordIO(index, records, "w") as record,
    ):

        def write(entry: ListEntry, data: bytes) -> None:
            record.write_idx(entry.number, data)

        _write(write, None, entries, Path(root), how, num_thread, on_error, progress, report)
    return report


def _resumed(
    entries: list[ListEntry],
    root: Path,
    how: Encoding,
    num_thread: int,
    on_error: str,
    progress: Callable[[int], None] | None,
    report: PackReport,
) -> None:
    """Packs into a folder that stays until all is done."""
    with closing(
        Unfinished(report.record.with_name(report.record.name + ".unfinished"), digest(entries, how))
    ) as done:
        reasons = iter(done.reasons)
        for entry, offset in zip(entries, done.offsets, strict=False):
            if offset is None:
                report.skipped.append((entry.path, FileFormatError(next(reasons))))
            else:
                report.written += 1
            if progress is not None:
                progress(1)

        def write(entry: ListEntry, data: bytes) -> None:
            done.write(data)

        rest = entries[len(done.offsets) :]
        _write(write, done.skip, rest, root, how, num_thread, on_error, progress, report)
        with atomic_group(report.record, report.index) as (records, index):
            done.finish(records, index, entries)
        done.remove()


def _write(
    write: Callable[[ListEntry, bytes], None],
    skip: Callable[[str], None] | None,
    entries: Iterable[ListEntry],
    root: Path,
    how: Encoding,
    num_thread: int,
    on_error: str,
    progress: Callable[[int], None] | None,
    report: PackReport,
) -> None:
    with ThreadPoolExecutor(num_thread, "im2rec") as threads:
        tasks = ((entry, threads.submit(how.record, root, entry)) for entry in entries)
        pending = _ahead(tasks, 4 * num_thread)
        try:
            for entry, future in pending:
                try:
                    data = future.result()
                except (MXNetError, OSError) as error:
                    if on_error == "raise":
                        raise _named(root / entry.path, error) from error
                    report.skipped.append((entry.path, error))
                    if skip is not None:
                        skip(f"{type(error).__name__}: {error}")
                else:
                    write(entry, data)
                    report.written += 1
                if progress is not None:
                    progress(1)
        finally:
            threads.shutdown(cancel_futures=True)


def _named(path: Path, error: Exception) -> Exception:
    if isinstance(error, OSError):
        return error  # has the path
    return FileFormatError(f"[im2rec] {path}: {error}")


def _ahead(
    tasks: Iterator[tuple[ListEntry, Future[bytes]]], count: int
) -> Iterator[tuple[ListEntry, Future[bytes]]]:
    """Take up to `count` tasks ahead: the threads have work, and memory is bounded."""
    waiting: deque[tuple[ListEntry, Future[bytes]]] = deque()
    for task in tasks:
        waiting.append(task)
        if len(waiting) > count:
            yield waiting.popleft()
    yield from waiting
