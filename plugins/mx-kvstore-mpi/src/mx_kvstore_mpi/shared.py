# SPDX-License-Identifier: Apache-2.0
"""Memory that the workers of one machine share."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable
from typing import Any

import numpy as np

from mx_core import services
from mx_core.errors import MXNetError
from mx_kvstore.descriptors import opened
from mx_kvstore.exchange import Neighbours, Window
from mx_kvstore_mpi import settings

#: behind what a window uses: a number by which workers know the file
_TAIL = 8


def shared_window(comm: Any, wait: Callable[[Any], object], together: bool) -> Window | None:
    """A window of all workers of a communicator, or None where they cannot share memory; all of them call it.

    The memory has no name in the file system: worker 0 makes it, and the others open it by the descriptor of that
    process. So nothing is left of it, however processes end.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        Of workers.
    wait : callable
        (request of MPI) -> None; returns when it is complete.
    together : bool
        Whether they are on one machine.
    """
    rank, workers = comm.Get_rank(), comm.Get_size()
    if not agreed(comm, wait, together and settings.shared_memory()):
        return None
    size = Window.bytes(workers)
    file = _made(size) if rank == 0 else -1
    where = np.zeros(3, np.int64)
    if file >= 0:
        where[:] = os.getpid(), file, int.from_bytes(os.pread(file, _TAIL, size), "little", signed=True)
    wait(comm.Ibcast(where, 0))
    window: Window | None = None
    try:
        if rank != 0 and where[0]:
            mark = int(where[2]).to_bytes(_TAIL, "little", signed=True)
            file = opened(
                int(where[0]), int(where[1]), os.O_RDWR, lambda file: os.pread(file, _TAIL, size) == mark
            )
        if file >= 0:
            with contextlib.suppress(OSError, MXNetError):
                window = Window(file, rank, workers)
        return window if agreed(comm, wait, window is not None) else None
    finally:  # all have mapped it, or never will
        if file >= 0:
            os.close(file)


def see_arrays(comm: Any, wait: Callable[[Any], object], window: Window) -> bool:
    """Has the workers of a window add large arrays where they lie, if all can; all of them call it.

    Each maps the files in which the storage managers of the others put what is exchanged. A worker alone has no others.

    Parameters are as those of `shared_window`.
    """
    if comm.Get_size() == 1:
        return False
    sharing = getattr(services.storage("cpu"), "sharing_capsule", None)
    mine = np.full(3, -1, np.int64)
    with contextlib.suppress(MXNetError):
        if sharing is not None:
            mine[:] = os.getpid(), *Neighbours.file(sharing)
    theirs = np.empty((comm.Get_size(), 3), np.int64)
    wait(comm.Iallgather(mine, theirs))
    found: Neighbours | None = None
    files = [_opened_like(int(mine[1]), *each) for each in theirs.tolist()]
    if min(files) >= 0:
        with contextlib.suppress(MXNetError):
            found = Neighbours(sharing, files)
    for file in files:
        if file >= 0:
            os.close(file)
    if not agreed(comm, wait, found is not None) or found is None:
        return False
    found.serve(window)
    return True


def _opened_like(mine: int, process: int, number: int, inode: int) -> int:
    """A file of another process with an inode, if it is one of memory as this process's, and as large."""

    def is_it(file: int) -> bool:
        own, other = os.fstat(mine), os.fstat(file)
        return (other.st_dev, other.st_size, other.st_ino) == (own.st_dev, own.st_size, inode)

    return opened(process, number, os.O_RDWR, is_it)


def agreed(comm: Any, wait: Callable[[Any], object], mine: bool) -> bool:
    """Whether it is true of all workers; all of them call it."""
    from mpi4py import MPI

    least = np.empty(1, np.int64)
    wait(comm.Iallreduce(np.array([mine], np.int64), least, op=MPI.MIN))
    return bool(least[0])


def _made(size: int) -> int:
    """A file in memory; -1 if there is none to be had."""
    try:
        file = os.memfd_create("mx-kvstore")
    except OSError:
        return -1
    try:
        os.posix_fallocate(file, 0, size + _TAIL)  # a page that cannot be had later would end the process
        os.pwrite(file, secrets.token_bytes(_TAIL), size)
    except OSError:
        os.close(file)
        return -1
    return file
