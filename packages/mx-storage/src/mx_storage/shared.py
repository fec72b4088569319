# SPDX-License-Identifier: Apache-2.0
"""Memory that processes share, by name.

A segment has no place in the file system. Its name says which process holds it and under which descriptor;
any process that may look into that process (the same user) can attach it. It lives until the last process that maps it
is gone, so nothing has to be cleaned up after one that dies.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from mx_core.errors import ArgumentError, MXNetError
from mx_storage._core import Block, StorageManager


@dataclass(frozen=True)
class SegmentName:
    """Where a segment is found.

    Attributes
    ----------
    pid, fd : a process that holds it, and its descriptor there
    inode : tells whether it is still the same one
    nbytes : size
    """

    pid: int
    fd: int
    inode: int
    nbytes: int

    def __str__(self) -> str:
        return f"{self.pid}:{self.fd}:{self.inode}:{self.nbytes}"

    @classmethod
    def parse(cls, text: str) -> SegmentName:
        """From its text form.

        Raises
        ------
        ArgumentError  the text has another form
        """
        parts = text.split(":")
        if len(parts) != 4 or not all(part.isdecimal() for part in parts):
            raise ArgumentError(f"[shared memory] expected a name 'pid:fd:inode:bytes', got {text!r}")
        return cls(*map(int, parts))


def name_of(manager: StorageManager, block: Block) -> SegmentName:
    """Name of the segment in which a block of a shared manager lies.

    Raises
    ------
    ArgumentError  the manager's memory is not shared between processes, or the block is not the manager's
    """
    _check_shared(manager)
    found = manager.segment(block.address)
    return SegmentName(os.getpid(), found.fd, found.inode, found.nbytes)


def attach(manager: StorageManager, name: SegmentName | str, tag: str | None = None) -> Block:
    """The segment of that name, mapped into this process; both sides see what either writes.

    Raises
    ------
    MXNetError  the process that held it is gone, or has freed it, or may not be looked into
    ArgumentError  the name has another form, or the manager's memory is not shared between processes
    """
    _check_shared(manager)
    wanted = SegmentName.parse(name) if isinstance(name, str) else name
    fd = _opened(wanted)
    try:
        if os.fstat(fd).st_ino != wanted.inode:
            raise MXNetError(f"[shared memory] {wanted}: process {wanted.pid} has freed it")
        return manager.attach(fd, wanted.nbytes, tag)
    finally:
        os.close(fd)


def _check_shared(manager: StorageManager) -> None:
    if manager.shared_capsule is None:
        raise ArgumentError(
            f"[shared memory] storage manager {manager.name!r} has no memory shared between processes; expected one "
            "made with pool='shared', or mx_storage.managers.shared()"
        )


def _opened(name: SegmentName) -> int:
    try:
        if name.pid == os.getpid():
            return os.dup(name.fd)
        return os.open(f"/proc/{name.pid}/fd/{name.fd}", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise MXNetError(f"[shared memory] {name}: cannot be attached: {error.strerror}") from error
