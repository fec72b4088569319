# SPDX-License-Identifier: Apache-2.0
"""Memory in which the workers and servers of one machine leave values for each other.

That of a worker has no name in the file system, so nothing is left of it, however the worker ends. That of a server is
in files of its folder, where the next process of the server finds it. Who reads memory opens it by a descriptor of the
process that has it. So on another machine it is not found.
"""

from __future__ import annotations

import mmap
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mx_core.errors import FileFormatError
from mx_kvstore.descriptors import opened
from mx_kvstore_ray.messages import Bytes, aligned

#: bytes of a file at least, and what part of all files a new one is
_FILE, _PART = 16 << 20, 8
#: bytes behind the places of a file: a number by which readers know it
_MARK = 8


@dataclass(frozen=True)
class Region:
    """A place in this process's memory that others may read.

    Parameters
    ----------
    data : numpy array of uint8
    where : list of int
        Process, descriptor, mark and size of the file, and where in it the place begins. JSON values.
    kept : list of int
        Number of the file in its folder, and where in it the place begins. JSON values.
    """

    data: Bytes
    where: list[int]
    kept: list[int]


@dataclass(frozen=True)
class _File:
    data: Bytes
    where: list[int]


class Memory:
    """Memory of this process that others may read; what is taken stays taken. Threads: one at a time.

    Parameters
    ----------
    folder : Path, optional
        Where its files stay when the process has ended.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._files: dict[int, _File] = {}
        #: numbers of the last file, and of that of which places are taken
        self._last, self._current = max(self._numbers(), default=0), 0
        #: bytes of all files that this process has made, and those that are taken of the current one
        self._total = self._used = 0

    def take(self, size: int) -> Region | None:
        """A place of `size` bytes, or None where there is none to be had."""
        room = self._files[self._current].data.nbytes if self._current else -1
        if self._used + size > room and not self._more(size):
            return None
        begin = self._used
        self._used += aligned(size)
        return self._region(self._current, begin, size)

    def again(self, kept: Sequence[int], size: int) -> Region:
        """A place that an earlier process took.

        Raises
        ------
        FileFormatError  its file is not there, or too short
        """
        number, begin = kept
        if number not in self._files:
            try:
                file = os.open(self._path(number), os.O_RDWR | os.O_CLOEXEC)
                whole = os.fstat(file).st_size - _MARK
                self._files[number] = _mapped(file, whole, os.pread(file, _MARK, whole))
            except (OSError, ValueError) as error:
                raise FileFormatError(f"{self._path(number)}: {error}") from error
        if begin + size > self._files[number].data.nbytes:
            raise FileFormatError(f"{self._path(number)}: expected {begin + size} bytes")
        return self._region(number, begin, size)

    def tidy(self) -> None:
        """Removes files of earlier processes of which no place is used."""
        for number in self._numbers():
            if number not in self._files:
                self._path(number).unlink(missing_ok=True)

    def close(self) -> None:
        """Closes the files; places that are held can be used on."""
        for file in self._files.values():
            os.close(file.where[1])
        self._files.clear()
        self._current = 0

    def _numbers(self) -> list[int]:
        paths = [] if self._folder is None else self._folder.glob("values-*.bin")
        return [int(path.stem.rpartition("-")[2]) for path in paths]

    def _path(self, number: int) -> Path:
        assert self._folder is not None
        return self._folder / f"values-{number}.bin"

    def _region(self, number: int, begin: int, size: int) -> Region:
        file = self._files[number]
        return Region(file.data[begin : begin + size], [*file.where, begin], [number, begin])

    def _more(self, size: int) -> bool:
        size = aligned(max(size, _FILE, self._total // _PART))
        number = self._last + 1
        try:
            file = self._made(number)
        except OSError:
            return False
        try:
            os.posix_fallocate(file, 0, size + _MARK)  # a page that cannot be had later would end the process
            mark = secrets.randbits(8 * _MARK - 1).to_bytes(_MARK, "little")
            os.pwrite(file, mark, size)
            self._files[number] = _mapped(file, size, mark)
        except (OSError, ValueError):
            os.close(file)
            if self._folder is not None:
                self._path(number).unlink(missing_ok=True)
            return False
        self._last = self._current = number
        self._used = 0
        self._total += size
        return True

    def _made(self, number: int) -> int:
        if self._folder is None:
            return os.memfd_create("mx-kvstore")
        return os.open(self._path(number), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)


def _mapped(file: int, size: int, mark: bytes) -> _File:
    data = np.frombuffer(mmap.mmap(file, size), np.uint8)
    return _File(data, [os.getpid(), file, int.from_bytes(mark, "little"), size])


class Others:
    """Memory of another process, as this one reads it. Threads: one at a time."""

    def __init__(self) -> None:
        self._files: dict[tuple[int, ...], Bytes] = {}

    def at(self, where: Sequence[int], size: int) -> Bytes | None:
        """The bytes of a region, read-only; None if that process has ended, or is on another machine."""
        *named, begin = where
        file = tuple(named)
        data = self._files.get(file)
        if data is None:
            data = _mapped_of(*file)
            if data is None:
                return None
            self._files[file] = data
        return data[begin : begin + size]


def _mapped_of(process: int, number: int, mark: int, size: int) -> Bytes | None:
    """A file of another process."""
    wanted = mark.to_bytes(_MARK, "little")
    file = opened(process, number, os.O_RDONLY, lambda file: os.pread(file, _MARK, size) == wanted)
    if file < 0:
        return None
    try:
        mapped: Any = mmap.mmap(file, size, prot=mmap.PROT_READ)
        return np.frombuffer(mapped, np.uint8)
    except (OSError, ValueError):
        return None
    finally:
        os.close(file)
