# SPDX-License-Identifier: Apache-2.0
"""Packing that goes on where a process before was ended: records and a journal in a folder beside the result."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from mx_core.errors import ArgumentError
from mx_core.files import naming
from mx_io import _core
from mx_io.im2rec.listing import ListEntry

#: Records between two entries of the journal that reach the disk: what a crash costs at most.
_STEP = 500


def digest(entries: Sequence[ListEntry], options: Any) -> str:
    """Of a list and of how its images are packed."""
    found = hashlib.sha256(repr(options).encode())
    for entry in entries:
        found.update(repr(tuple(entry)).encode("utf-8", "surrogateescape"))
    return found.hexdigest()


class Unfinished:
    """The records of an unfinished file, and a journal that says which images they are.

    A line of the journal is written when its record is on the disk. When the file is opened again, records that no
    line names, and lines whose records are not there, are cut off.

    Parameters
    ----------
    folder : Path
        It is made, and removed by `remove`.
    digest : str
        Of the list and the options.

    Raises
    ------
    ArgumentError
        The folder has records of another list or other options, or another process writes to it.

    Attributes
    ----------
    offsets : list of int or None
        Of the record of each image that is done, in the list's order; None for those that were skipped.
    reasons : list of str
        Why images were skipped.

    Threads: one at a time.
    """

    def __init__(self, folder: Path, digest: str) -> None:
        self.folder = folder
        self.records = folder / "records.rec"
        self.offsets: list[int | None] = []
        self.reasons: list[str] = []
        self._waiting: list[bytes] = []
        with naming(folder):
            folder.mkdir(exist_ok=True)
            self._journal: BinaryIO = open(folder / "journal", "a+b", buffering=0)  # noqa: SIM115 - closed by `close`
        try:
            kept = self._taken_over(digest)
            self._writer = _core.RecordWriter(os.fsencode(self.records), kept)
        except BaseException:
            self._journal.close()
            raise

    def _taken_over(self, digest: str) -> int:
        """Reads what a process before has left; the bytes of records that are kept."""
        try:
            fcntl.flock(self._journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ArgumentError(f"[im2rec] {self.folder}: another process is writing to it") from None
        self._journal.seek(0)
        lines = self._journal.read().splitlines(keepends=True)
        head = f"{digest}\n".encode()
        if lines and lines[0] != head and lines[0].endswith(b"\n"):
            raise ArgumentError(
                f"[im2rec] {self.folder}: expected unfinished records of this list and these options, got those of "
                "others; delete the folder to begin anew"
            )
        intact, end = self._intact()
        place, size = 0, len(head)
        for line in lines[1:]:
            entry = _parsed(line)
            if entry is None or (isinstance(entry, int) and (place == len(intact) or intact[place] != entry)):
                break
            if isinstance(entry, int):
                place += 1
                self.offsets.append(entry)
            else:
                self.offsets.append(None)
                self.reasons.append(entry)
            size += len(line)
        with naming(self.folder / "journal"):
            self._journal.truncate(size if lines and lines[0] == head else 0)
            if not (lines and lines[0] == head):
                self._journal.write(head)
        return intact[place] if place < len(intact) else end

    def _intact(self) -> tuple[list[int], int]:
        """The offsets of the records that are whole, and where the last of them ends."""
        if not self.records.exists() or self.records.stat().st_size == 0:
            return [], 0
        reader = _core.RecordReader(os.fsencode(self.records))
        found, damages = reader.scan()
        if damages:
            found = [offset for offset in found if offset < damages[0][0]]
        if not found:
            return [], 0
        reader.seek(found[-1])
        reader.read()
        return found, reader.tell()

    def write(self, data: bytes) -> None:
        """Append the record of the next image."""
        offset = self._writer.write(data)
        self.offsets.append(offset)
        self._note(f"{offset}\n")

    def skip(self, reason: str) -> None:
        """Note that the next image has no record."""
        self.offsets.append(None)
        self.reasons.append(reason)
        self._note(json.dumps(reason) + "\n")

    def _note(self, line: str) -> None:
        self._waiting.append(line.encode())
        if len(self._waiting) >= _STEP:
            self.flush()

    def flush(self) -> None:
        """Bring records to the disk, then the lines that name them."""
        self._writer.flush()
        with naming(self.records), open(self.records, "rb") as file:
            os.fsync(file.fileno())
        lines, self._waiting = self._waiting, []
        with naming(self.folder / "journal"):
            self._journal.write(b"".join(lines))

    def close(self) -> None:
        """Write what waits and close the files; the folder stays."""
        if self._journal.closed:
            return
        try:
            self.flush()
        finally:
            self._writer.close()
            self._journal.close()

    def finish(self, records: Path, index: Path, entries: Sequence[ListEntry]) -> None:
        """Move the records to where they are wanted, and write their index."""
        self.close()
        pairs = zip(entries, self.offsets, strict=True)
        lines = [f"{entry.number}\t{offset}\n" for entry, offset in pairs if offset is not None]
        with naming(index), open(index, "w", encoding="utf-8") as file:
            file.writelines(lines)
        with naming(records):
            os.replace(self.records, records)

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _parsed(line: bytes) -> int | str | None:
    """An offset, or why an image was skipped; None for a line that was cut."""
    if not line.endswith(b"\n"):
        return None
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, int | str) and not isinstance(found, bool) else None
