# SPDX-License-Identifier: Apache-2.0
"""Starting and ending MPI in the thread that alone uses it."""

from __future__ import annotations

import contextlib
import os
import re
import socket
from pathlib import Path
from typing import Any

from mx_core.errors import MXNetError
from mx_kvstore_mpi.job import Job

#: what a process manager tells MPI by; not for the children of this process
_OF_PMI = ("PMI_FD", "PMI_RANK", "PMI_SIZE")


def start(meeting: socket.socket | None, number: int, size: int, hosts: int) -> Any:
    """Initialises MPI; returns the communicator of all processes, whose errors raise.

    Parameters
    ----------
    meeting : socket.socket, optional
        Where the hub speaks PMI. Without one the process manager that started the process does.
    number, size : int
        This process's, and how many there are.
    hosts : int
        Over how many machines they are spread. On one, nothing is opened that could be reached from elsewhere.

    Raises
    ------
    MXNetError  MPI cannot be used: it is initialised otherwise already, or other processes were found
    """
    import mpi4py

    mpi4py.rc.initialize = False
    mpi4py.rc.finalize = False
    if hosts == 1:
        os.environ.setdefault("UCX_TLS", "self,sm")  # shared memory alone: no TCP, so nothing listens
    if meeting is not None:
        os.environ.update(zip(_OF_PMI, map(str, (meeting.fileno(), number, size)), strict=True))
    try:
        from mpi4py import MPI

        if not MPI.Is_initialized():
            MPI.Init_thread(MPI.THREAD_FUNNELED)
        elif MPI.Query_thread() < MPI.THREAD_SERIALIZED:
            raise MXNetError(
                "[KVStore] MPI is initialised by this program for one thread only; create the store before, or set "
                "mpi4py.rc.thread_level = 'serialized'"
            )
    finally:
        if meeting is not None:
            for name in _OF_PMI:
                os.environ.pop(name, None)
    world = MPI.COMM_WORLD
    world.Set_errhandler(MPI.ERRORS_RETURN)
    if meeting is not None and (world.Get_size() != size or world.Get_rank() != number):
        raise MXNetError(
            f"[KVStore] MPI found {world.Get_size()} processes, the job has {size}: mpi4py.MPI was imported before the "
            "store was created, or the MPI library is not MPICH; start the program by that library's own mpiexec then"
        )
    world.Barrier()
    _unlink_shared_memory()
    return world


def _unlink_shared_memory() -> None:
    """Removes the names of MPICH's shared memory, which all processes of the machine have mapped by now.

    So nothing is left of it when processes are killed.
    """
    with contextlib.suppress(OSError), open("/proc/self/maps") as file:
        for name in set(re.findall(r"(/dev/shm/mpich_shm_\S+)$", file.read(), re.MULTILINE)):
            with contextlib.suppress(OSError):
                os.unlink(name)


def unlink_shared_memory_of(job: Job) -> None:
    """Removes what is left of MPICH's shared memory of a job on this machine, all processes of which have ended.

    They remove its names by themselves, but not if they are killed while MPI begins. MPICH makes them from a hash of
    the name of the meeting, FNV-1a of 32 bits. Where it makes them otherwise, nothing is found.
    """
    value = 0x811C9DC5
    for byte in job.meeting.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    for path in Path("/dev/shm").glob(f"mpich_shm_{value:x}_*"):
        with contextlib.suppress(OSError):  # such as those of another user
            path.unlink()


def finish() -> None:
    """Finalises MPI, if nobody has, for a process manager that expects it. Blocks until all processes do."""
    from mpi4py import MPI

    if not MPI.Is_finalized():
        MPI.Finalize()
