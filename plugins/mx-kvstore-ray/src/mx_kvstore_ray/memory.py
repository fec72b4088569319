# SPDX-License-Identifier: Apache-2.0
"""Memory in which the workers and servers of one machine leave values for each other.

It has no name in the file system. Who reads it opens it by a descriptor of the process that made it. So nothing is left
of it, however processes end, and on another machine it is not found.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mx_kvstore_ray.messages import Bytes, aligned

#: bytes from which a value is worth a place of its own
LEAST = 1 << 18
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
    """

    data: Bytes
    where: list[int]


class Memory:
    """Memory of this process that others may read; what is taken stays taken. Threads: one at a time."""

    def __init__(self) -> None:
        self._total = 0
        self._data: Bytes = np.empty(0, np.uint8)
        self._where: list[int] = []
        self._used = 0

    def take(self, size: int) -> Region | None:
        """A place of `size` bytes, or None where there is none to be had."""
        if self._used + size > self._data.nbytes and not self._more(size):
            return None
        begin = self._used
        self._used += aligned(size)
        return Region(self._data[begin : begin + size], [*self._where, begin])

    def _more(self, size: int) -> bool:
        size = aligned(max(size, _FILE, self._total // _PART))
        mark = secrets.randbits(8 * _MARK - 1)
        try:
            file = os.memfd_create("mx-kvstore")
        except OSError:
            return False
        try:
            os.posix_fallocate(file, 0, size + _MARK)  # a page that cannot be had later would end the process
            os.pwrite(file, mark.to_bytes(_MARK, "little"), size)
            data = np.frombuffer(mmap.mmap(file, size), np.uint8)
        except (OSError, ValueError):
            os.close(file)
            return False
        self._data, self._where, self._used = data, [os.getpid(), file, mark, size], 0
        self._total += size
        return True


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
            data = _opened(*file)
            if data is None:
                return None
            self._files[file] = data
        return data[begin : begin + size]


def _opened(process: int, number: int, mark: int, size: int) -> Bytes | None:
    """A file of another process."""
    try:
        file = os.open(f"/proc/{process}/fd/{number}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        with contextlib.suppress(OSError, ValueError):
            if os.pread(file, _MARK, size) == mark.to_bytes(_MARK, "little"):
                mapped: Any = mmap.mmap(file, size, prot=mmap.PROT_READ)
                return np.frombuffer(mapped, np.uint8)
        return None
    finally:
        os.close(file)
