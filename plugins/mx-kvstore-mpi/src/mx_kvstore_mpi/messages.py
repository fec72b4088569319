# SPDX-License-Identifier: Apache-2.0
"""What workers and servers send each other by MPI: a head of whole numbers, then a JSON text, then values.

The set of commands is closed; a text holds names and numbers only.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import IntEnum
from typing import Any

import numpy as np

from mx_kvstore.arrays import Values
from mx_kvstore_mpi.errors import ProtocolError

#: tags of MPI
HEAD, TEXT, DATA, ANSWER, VALUE = 1, 2, 3, 4, 100
#: numbers of a head: command, key, bytes of text, bytes of data
_NUMBERS = 4
#: longest text, in bytes
_LIMIT = 1 << 24


class Command(IntEnum):
    """What a worker asks a server for."""

    INIT = 1  #: text: key, shape, type; data: the first value
    PUSH = 2  #: data: a gradient; answered by the new value once all workers have pushed
    PUSH_ONLY = 3  #: data: a gradient; applied at once
    PULL = 4  #: answered by the value, once it is there
    OPTIMIZER = 5  #: text: what to run from now on
    SAVE = 6  #: answered by the states of the optimizer
    LOAD = 7  #: data: states
    FLUSH = 8  #: answered when all that the worker sent before is done
    COMPRESSION = 9  #: text: how pushes are compressed from now on
    RATES = 10  #: text: numbers of the optimizer from now on, whose states stay
    PROFILE = 11  #: text: a function of the server's profiler, and its arguments


def send(
    comm: Any, to: int, command: Command, key: int = 0, text: Any = None, data: Values | None = None
) -> list[Any]:
    """Begins to send a message; what it returns must be kept until all of it is complete."""
    said = b"" if text is None else json.dumps(text).encode()
    size = 0 if data is None else data.nbytes
    head = np.array([command, key, len(said), size], np.int64)
    pending = [comm.Isend(head, to, HEAD)]
    if said:
        pending.append(comm.Isend(np.frombuffer(said, np.uint8), to, TEXT))
    if data is not None and size:
        pending.append(comm.Isend(data.view(np.uint8), to, DATA))
    return pending


def receive(
    comm: Any, source: int, room: Callable[[Command, int, Any, int], Values]
) -> tuple[Command, int, Any, Values]:
    """Receives the message whose head is there.

    Parameters
    ----------
    room : callable
        (command, key, text, bytes) -> bytes to receive the data into.
    """
    head = np.empty(_NUMBERS, np.int64)
    comm.Recv(head, source, HEAD)
    number, key, said, size = map(int, head)
    if number not in set(Command) or not 0 <= said <= _LIMIT or size < 0:
        raise ProtocolError(f"[KVStore] rank {source} sent a message that is none: {head.tolist()}")
    text = None
    if said:
        buffer = np.empty(said, np.uint8)
        comm.Recv(buffer, source, TEXT)
        text = json.loads(buffer.tobytes())
    command = Command(number)
    data = room(command, key, text, size)
    if size:
        comm.Recv(data[:size], source, DATA)
    return command, key, text, data[:size]


def answer(comm: Any, to: int, error: str = "", data: bytes = b"") -> None:
    """Sends the answer to a command of rank `to`; blocks until it is under way."""
    said = json.dumps({"error": error, "size": len(data)}).encode()
    comm.Send(np.frombuffer(said, np.uint8), to, ANSWER)
    if data:
        comm.Send(np.frombuffer(data, np.uint8), to, ANSWER)


def answered(comm: Any, source: int, wait: Callable[[Callable[[], bool]], None]) -> tuple[str, bytes]:
    """The error and the data of an answer."""
    from mpi4py import MPI

    def received() -> bytes:
        status = MPI.Status()
        wait(lambda: comm.Iprobe(source, ANSWER, status))
        buffer = np.empty(status.Get_count(MPI.BYTE), np.uint8)
        comm.Recv(buffer, source, ANSWER)
        return buffer.tobytes()

    said = json.loads(received())
    return str(said["error"]), received() if said["size"] else b""
