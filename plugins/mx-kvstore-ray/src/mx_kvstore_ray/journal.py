# SPDX-License-Identifier: Apache-2.0
"""What a server keeps in files: checkpoints of all it holds, and between two of them each change, before it counts.

A killed process loses nothing that it has written. So a server that starts anew reads the latest checkpoint, repeats
the changes, and holds what it held when it last answered. Nothing of a file is executed.

The changes after a checkpoint are written over those before it, and a checkpoint over the one before the last, since
new pages of a file cost more than what is copied to them. So each record has the number of its checkpoint, and a change
gets its head last: what is left of an older one ends the reading.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import time
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from mx_core.errors import FileError, FileFormatError, MXNetError
from mx_kvstore_ray.messages import Bytes

#: a change: JSON values and bytes
Record = tuple[dict[str, Any], Bytes]

#: magic, CRC of all that follows but the data; number of the checkpoint, bytes of the JSON text and of data
_MAGIC_AND_CRC, _SIZES = struct.Struct("<4sI"), struct.Struct("<QIQ")
_HEAD = _MAGIC_AND_CRC.size + _SIZES.size
_MAGIC = b"mxk3"
_DRAFT = "draft.bin"
_NOTHING = np.empty(0, np.uint8)
#: bytes of changes that are kept before a checkpoint is due, and how many times those of the state
_LEAST, _TIMES = 64 << 20, 4


def head_of(number: int, told: dict[str, Any], size: int) -> bytes:
    """What comes before the `size` bytes of a record's data."""
    text = json.dumps(told).encode()
    rest = _SIZES.pack(number, len(text), size) + text
    return _MAGIC_AND_CRC.pack(_MAGIC, zlib.crc32(rest)) + rest


def write(file: IO[bytes], number: int, told: dict[str, Any], data: Bytes = _NOTHING) -> None:
    """Writes a record of a checkpoint."""
    file.write(head_of(number, told, data.nbytes))
    file.write(data.data)


def read(path: Path, number: int) -> Iterator[Record]:
    """The records of a file, up to one that is not whole, since its writer was killed, or is of another checkpoint."""
    with path.open("rb") as file:
        while len(head := file.read(_HEAD)) == _HEAD:
            magic, crc = _MAGIC_AND_CRC.unpack_from(head)
            of, length, size = _SIZES.unpack_from(head, _MAGIC_AND_CRC.size)
            if magic != _MAGIC or of != number or len(text := file.read(length)) < length:
                return
            if zlib.crc32(head[_MAGIC_AND_CRC.size :] + text) != crc:
                return
            data = np.frombuffer(file.read(size), np.uint8)
            if data.nbytes < size:
                return
            yield json.loads(text), data


class Journal:
    """The files of a server. Threads: one at a time.

    Parameters
    ----------
    folder : Path
        Made if it is not there.
    interval : float
        Seconds after which a checkpoint is due.
    """

    def __init__(self, folder: Path, interval: float) -> None:
        self._folder = folder
        self._interval = interval
        self._file: IO[bytes] | None = None
        self._bytes = 0
        self._since = time.monotonic()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        numbers = [int(path.stem.rpartition("-")[2]) for path in folder.glob("checkpoint-*.bin")]
        self._number = max(numbers, default=0)

    def _checkpoint(self, number: int) -> Path:
        return self._folder / f"checkpoint-{number}.bin"

    def _changes(self, number: int) -> Path:
        return self._folder / f"changes-{number}.bin"

    def recover(self) -> Iterator[Record]:
        """The records of the latest checkpoint, then the changes after it; nothing of a new server.

        Raises
        ------
        FileFormatError  the checkpoint is damaged, or of another version
        """
        if not self._number:
            return
        ended = False
        for told, data in read(self._checkpoint(self._number), self._number):
            ended = told["do"] == "end"
            yield told, data
        if not ended:
            raise FileFormatError(
                f"{self._checkpoint(self._number)}: the checkpoint is not whole, or another version of mx wrote it"
            )
        if self._changes(self._number).exists():
            yield from read(self._changes(self._number), self._number)

    def append(self, told: dict[str, Any], data: Bytes = _NOTHING) -> int:
        """Keeps a change, which outlives the process when this returns; where it begins, for `cut`.

        Raises
        ------
        FileError  the disk is full, for example; nothing of the change is kept
        """
        path = str(self._changes(self._number))
        if self._file is None:
            raise MXNetError(f"[KVStore server] {path} could not be mended, so no more changes are taken")
        place, head = self._bytes, head_of(self._number, told, data.nbytes)
        try:
            _write_at(self._file.fileno(), data.data, place + len(head))
            _write_at(self._file.fileno(), head, place)
            self._bytes += len(head) + data.nbytes
        except BaseException as error:
            self.cut(place)
            if isinstance(error, OSError):
                raise FileError.of(error.errno or 0, path) from error
            raise
        return place

    def cut(self, place: int) -> None:
        """Forgets the changes from `place` on. If that fails, no more are taken."""
        if self._file is None:
            return
        try:
            self._file.truncate(place)
        except OSError as error:
            self.close()
            raise FileError.of(error.errno or 0, str(self._changes(self._number))) from error
        self._bytes = place

    def due(self, size: int) -> bool:
        """Whether a checkpoint is to be written; `size` is how many bytes it would have."""
        if not self._bytes:
            return False
        late = time.monotonic() - self._since > self._interval
        return late or self._bytes > max(_LEAST, _TIMES * size)

    def checkpoint(self, records: Iterable[Record]) -> None:
        """Writes all that the server holds; it takes the place of earlier files at once or not at all."""
        number = self._number + 1
        self._draft(number, records)
        if self._file is None:
            # a buffer would keep what could not be written
            self._file = self._changes(number).open("wb", buffering=0)
        else:
            try:
                os.replace(self._changes(self._number), self._changes(number))
            except OSError:
                self.close()  # its changes would be those after the checkpoint before
                raise
        with contextlib.suppress(OSError):
            os.replace(self._checkpoint(self._number), self._folder / _DRAFT)
        self._number, self._bytes, self._since = number, 0, time.monotonic()
        for path in self._folder.glob("c*-*.bin"):  # those before
            if path.stem.rpartition("-")[2] != str(number):
                path.unlink(missing_ok=True)

    def _draft(self, number: int, records: Iterable[Record]) -> None:
        """Writes a checkpoint over the one before the last, and gives it its name when it is whole."""
        draft, path = self._folder / _DRAFT, self._checkpoint(number)
        try:
            with open(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b") as file:
                for told, data in records:
                    write(file, number, told, data)
                write(file, number, {"do": "end"})
                file.truncate()
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
            _synchronise(self._folder)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise FileError.of(error.errno or 0, str(path)) from error

    def close(self) -> None:
        """Closes the files; they stay."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _synchronise(folder: Path) -> None:
    """Has the names in a folder reach the disk."""
    opened = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _write_at(file: int, data: Any, place: int) -> None:
    """Writes all of some bytes to a place of a file."""
    left = memoryview(data)
    while left:
        count = os.pwrite(file, left, place)
        left, place = left[count:], place + count
