# SPDX-License-Identifier: Apache-2.0
"""RecordIO files: sequential and indexed reading and writing.

Imports mx_core and NumPy only, so record files can be handled without the rest of mx.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import FileIO
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from mx_core.errors import ArgumentError, DTypeError, FileFormatError, IndexOutOfBoundsError, MXNetError
from mx_core.files import atomic_write, naming
from mx_core.forks import ForkSafeLock
from mx_io import _core
from mx_io.packing import BytesLike, IRHeader, pack, pack_img, unpack, unpack_img

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = [
    "IRHeader",
    "MXIndexedRecordIO",
    "MXRecordIO",
    "build_index",
    "pack",
    "pack_img",
    "read_index",
    "unpack",
    "unpack_img",
]

Path = str | os.PathLike[str]
#: Entries of an index that wait for their records.
_INDEX_ENTRIES = 1024


class MXRecordIO:
    """A RecordIO file, read or written from its beginning.

    Threads: any; reads at the position and writes take turns.

    Parameters
    ----------
    uri : str or path
    flag : {"r", "w"}
        `"w"` replaces the file.

    Notes
    -----
    Reads and writes run without the GIL. Records are handed to the operating system whole;
    `close()` (or leaving a `with` block) raises what went wrong, and a failed write is cut off again. A
    forked child may go on reading (with a position of its own) but not writing.

    Examples
    --------
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "numbers.rec")
    >>> with MXRecordIO(path, "w") as record:
    ...     for i in range(3):
    ...         record.write(f"record {i}".encode())
    >>> with MXRecordIO(path, "r") as record:
    ...     record.read()
    b'record 0'
    """

    def __init__(self, uri: Path, flag: str) -> None:
        self.uri = os.fspath(uri)
        self.flag = flag
        self.is_open = False
        self.pid: int | None = None
        self.open()

    def open(self) -> None:
        """Open the file anew; a writer empties it."""
        if self.flag not in ("r", "w"):
            raise ArgumentError(f"[{type(self).__name__}] flag: expected 'r' or 'w', got {self.flag!r}")
        self.writable = self.flag == "w"
        make = _core.RecordWriter if self.writable else _core.RecordReader
        self._record: _core.RecordReader | _core.RecordWriter | None = make(os.fsencode(self.uri))
        self.pid = os.getpid()
        self.is_open = True

    def close(self) -> None:
        """Write what is pending and close; does nothing when closed already."""
        if not self.is_open:
            return
        self.is_open = False
        record, self._record = self._record, None
        if isinstance(record, _core.RecordWriter):
            record.close()

    def reset(self) -> None:
        """Go back to the first record; a writer begins an empty file."""
        self.close()
        self.open()

    def read(self) -> bytes | None:
        """The next record's payload, or None at the end of the file.

        Raises
        ------
        FileFormatError
            The file is damaged or ends in the middle of a record; names the byte.
        """
        return self._reader().read()

    def read_batch(self, offsets: Sequence[int]) -> list[bytes]:
        """The payloads of the records at the given byte offsets, read without the GIL.

        The sequential position stays where it is; several threads may read at once.
        """
        return self._open_reader().read_batch(offsets)

    def offsets(self, part_index: int = 0, num_parts: int = 1) -> list[int]:
        """Byte offsets of the records of one of `num_parts` equal byte ranges of the file.

        Every record belongs to exactly one part, and a part is found without reading the others.
        """
        offsets: list[int] = self._offset_array(part_index, num_parts).tolist()
        return offsets

    def _offset_array(self, part_index: int = 0, num_parts: int = 1) -> npt.NDArray[np.int64]:
        """`offsets`, in a fifth of the memory."""
        return self._open_reader().offsets(part_index, num_parts)

    def scan(self, part_index: int = 0, num_parts: int = 1) -> tuple[list[int], list[tuple[int, int, str]]]:
        """Byte offsets of the intact records of a part, and begin, end and reason of each damaged place in it.

        It reads every byte and raises nothing about damage: after a damaged place it goes on at the next beginning of
        a record.
        """
        return self._open_reader().scan(part_index, num_parts)

    def write(self, buf: BytesLike) -> None:
        """Append a record of fewer than 2**29 bytes."""
        self._append(buf)

    def _append(self, buf: BytesLike) -> int:
        """Writes a record; returns its offset."""
        writer = self._writer()
        try:
            return writer.write(buf)
        except TypeError:
            given = repr(buf)[:60]
            raise DTypeError(
                f"[{type(self).__name__}] {self.uri}: expected bytes or another buffer, got {given}"
            ) from None

    def flush(self) -> None:
        """Hand everything written so far to the operating system."""
        self._writer().flush()

    def _open_reader(self) -> _core.RecordReader:
        record = self._record
        if not isinstance(record, _core.RecordReader):
            raise MXNetError(
                f"[{type(self).__name__}] {self.uri}: expected a file open for reading, got {self._state()}"
            )
        return record

    def _reader(self) -> _core.RecordReader:
        """The open reader, at a position of this process: a forked child begins at the first record."""
        record = self._open_reader()
        if self.pid == os.getpid():
            return record
        self.reset()
        return self._open_reader()

    def _writer(self) -> _core.RecordWriter:
        record = self._record
        if not isinstance(record, _core.RecordWriter):
            raise MXNetError(
                f"[{type(self).__name__}] {self.uri}: expected a file open for writing, got {self._state()}"
            )
        if self.pid != os.getpid():
            raise MXNetError(
                f"[{type(self).__name__}] {self.uri}: Forbidden operation in multiple processes: "
                f"opened for writing by process {self.pid}, used by {os.getpid()}"
            )
        return record

    def _state(self) -> str:
        return f"one open with flag {self.flag!r}" if self.is_open else "a closed one"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "is_open", False):
            self.close()

    def __getstate__(self) -> dict[str, Any]:
        if self.writable:
            raise MXNetError(
                f"[{type(self).__name__}] {self.uri}: a record file open for writing cannot be pickled"
            )
        state = dict(self.__dict__)
        del state["_record"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        was_open, self.is_open, self._record = self.is_open, False, None
        if was_open:
            self.open()


class MXIndexedRecordIO(MXRecordIO):
    """A RecordIO file with an index: records are read in any order by key.

    Parameters
    ----------
    idx_path : str or path
        Text file, one line `key<TAB>offset` a record.
    uri : str or path
    flag : {"r", "w"}
    key_type : callable
        Makes a key from its text; `int` by default.

    Attributes
    ----------
    idx : dict
        Byte offset by key.
    keys : list
        Keys in the order of the file.

    Notes
    -----
    A writer's two files grow in place. A process that is killed leaves an index of records that are there,
    perhaps not of all: `build_index` makes a new one. When the disk is full, `write_idx`, `flush` or `close` raises
    `FileError`; both files end after the last whole record that fits, and its entry.
    """

    def __init__(
        self, idx_path: Path, uri: Path, flag: str, key_type: Callable[[Any], Hashable] = int
    ) -> None:
        self.idx_path = os.fspath(idx_path)
        self.key_type = key_type
        self.idx: dict[Hashable, int] = {}
        self.keys: list[Hashable] = []
        self._index_file: FileIO | None = None
        self._unwritten: list[tuple[str, int]] = []
        self._index_lock = ForkSafeLock()
        super().__init__(uri, flag)

    def open(self) -> None:
        if self.flag == "w":
            self._index_file = self._emptied_index()
        try:
            super().open()
        except BaseException:
            if self._index_file is not None:
                self._index_file.close()
            raise
        self.idx, self.keys, self._unwritten = {}, [], []
        if not self.writable:
            self.idx = read_index(self.idx_path, self.key_type)
            self.keys = list(self.idx)

    def _emptied_index(self) -> FileIO:
        """The index file, emptied before its records are: a process killed here leaves no wrong entry."""
        opened = os.open(self.idx_path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        index = FileIO(opened, "wb")
        try:
            os.close(os.open(self.uri, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666))  # may it be written?
            with naming(self.idx_path):
                index.truncate(0)
        except BaseException:
            index.close()
            raise
        return index

    def close(self) -> None:
        if not self.is_open:
            return
        index_file, self._index_file = self._index_file, None
        if index_file is None:
            super().close()
            return
        writer = self._record
        assert isinstance(writer, _core.RecordWriter)
        with index_file, self._index_lock:
            entries, self._unwritten = self._unwritten, []
            with self._indexed(index_file, writer, entries if self.pid == os.getpid() else []):
                super().close()

    def flush(self) -> None:
        with self._index_lock:
            writer, index_file = self._writer(), self._index_file
            assert index_file is not None  # as of every writer that is open
            entries, self._unwritten = self._unwritten, []
            with self._indexed(index_file, writer, entries):
                super().flush()

    @contextmanager
    def _indexed(
        self, index_file: FileIO, writer: _core.RecordWriter, entries: Sequence[tuple[str, int]]
    ) -> Iterator[None]:
        """Writes records, then entries of those that are there: no entry points at nothing when the disk is full."""
        try:
            yield
        except OSError:
            with suppress(OSError):  # the first is told
                self._write_entries(index_file, entries, writer.written())
            raise
        self._write_entries(index_file, entries, writer.written())

    def _write_entries(self, index_file: FileIO, entries: Sequence[tuple[str, int]], written: int) -> None:
        """Appends whole lines, or as many as fit: half an offset would lead to another place."""
        lines = "".join(f"{key}\t{offset}\n" for key, offset in entries if offset < written).encode()
        begin, done = index_file.tell(), 0
        with naming(self.idx_path):
            try:
                while done < len(lines):
                    done += index_file.write(lines[done:]) or 0
            except BaseException:
                index_file.truncate(begin + lines.rfind(b"\n", 0, index_file.tell() - begin) + 1)
                raise

    def seek(self, idx: Hashable) -> None:
        """Make the record of a key the next one to be read."""
        self._reader().seek(self._offset(idx))

    def tell(self) -> int:
        """Byte offset of the next record, to be written or read."""
        return (self._writer() if self.writable else self._reader()).tell()

    def read_idx(self, idx: Hashable) -> bytes:
        """The payload of the record of a key; `read` then goes on with the record after it."""
        return self._reader().read_at(self._offset(idx))

    def read_keys(self, keys: Iterable[Hashable]) -> list[bytes]:
        """The payloads of several keys, read in one call without the GIL."""
        return self.read_batch([self._offset(key) for key in keys])

    def write_idx(self, idx: Hashable, buf: BytesLike) -> None:
        """Append a record under a key; a key used twice finds the later record."""
        key = self.key_type(idx)
        text = str(key)
        if not text or any(c in text for c in "\t\r\n"):
            raise ArgumentError(
                f"[MXIndexedRecordIO] {self.idx_path}: expected a key of one line without tabs, got {key!r}"
            )
        offset = self._append(buf)
        with self._index_lock:
            self._unwritten.append((text, offset))
            self.idx[key] = offset
            self.keys.append(key)
        if len(self._unwritten) >= _INDEX_ENTRIES:
            self.flush()

    def _offset(self, key: Hashable) -> int:
        try:
            return self.idx[key]
        except KeyError:
            raise IndexOutOfBoundsError(
                f"[MXIndexedRecordIO] {self.idx_path}: expected one of {len(self.keys)} keys, got {key!r}"
            ) from None

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        del state["_index_file"], state["_index_lock"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._index_file = None
        self._index_lock = ForkSafeLock()
        super().__setstate__(state)


def read_index(path: Path, key_type: Callable[[str], Any] = int) -> dict[Any, int]:
    """Read an index file: byte offset by key, in the order of the file.

    Raises
    ------
    FileFormatError
        A line is not `key<TAB>offset`; names the line.
    """
    index: dict[Any, int] = {}
    for entry in index_entries(path, key_type):
        if isinstance(entry, FileFormatError):
            raise entry
        key, offset = entry
        index[key] = offset
    return index


def index_entries(
    path: Path, key_type: Callable[[str], Any] = int
) -> Iterator[tuple[Any, int] | FileFormatError]:
    """Key and byte offset of each line of an index file, or what is wrong with the line."""
    with naming(path), open(path, "rb") as file:
        for number, raw in enumerate(file, 1):
            try:
                key, offset = raw.decode("utf-8").rstrip("\r\n").split("\t")
                position = int(offset)
                if not 0 <= position < 2**63:
                    raise ValueError(position)
                entry = key_type(key), position
            except (ValueError, TypeError) as error:
                told = FileFormatError(
                    f"[RecordIO] {os.fspath(path)}: line {number}: expected 'key<TAB>offset', got {raw[:80]!r}"
                )
                told.__cause__ = error
                yield told
            else:
                yield entry


def build_index(uri: Path, idx_path: Path) -> int:
    """Write the index of a RecordIO file that has none, with keys 0, 1, 2, …

    Returns
    -------
    int
        Number of records.
    """
    with MXRecordIO(uri, "r") as record:
        offsets = record.offsets()
    with atomic_write(idx_path, "w", encoding="utf-8") as file:
        file.writelines(f"{key}\t{offset}\n" for key, offset in enumerate(offsets))
    return len(offsets)
