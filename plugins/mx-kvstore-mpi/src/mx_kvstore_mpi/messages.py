# SPDX-License-Identifier: Apache-2.0
"""What workers and servers send each other by MPI: a head of whole numbers, then a JSON text, indices and values.

The set of commands is closed; a text holds names and numbers only.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from mx_kvstore.arrays import Values
from mx_kvstore.storage import DEFAULT, name_of
from mx_kvstore_mpi.errors import ProtocolError

#: tags of MPI
HEAD, TEXT, DATA, ANSWER, INDICES, VALUE = 1, 2, 3, 4, 5, 100
#: longest text, in bytes
_LIMIT = 1 << 24


class Command(IntEnum):
    """What a worker asks a server for."""

    INIT = 1  #: text: key, shape, type, shape of the whole; data: the first value
    PUSH = 2  #: data: a slice of a gradient; answered by that of the new value once all workers have pushed
    PUSH_ONLY = 3  #: data: a slice of a gradient, which is applied when it is complete
    PULL = 4  #: answered by the slices of the value, once it is there; text: that of INIT, if it is to be compared
    OPTIMIZER = 5  #: text: what to run from now on
    SAVE = 6  #: answered by the states of the optimizer
    LOAD = 7  #: data: states
    FLUSH = 8  #: answered when all that the worker sent before is done
    COMPRESSION = 9  #: text: how pushes are compressed from now on
    RATES = 10  #: text: numbers of the optimizer from now on, whose states stay
    PROFILE = 11  #: text: a function of the server's profiler, and its arguments


class Head(NamedTuple):
    """The numbers of a message.

    Parameters
    ----------
    command : Command
    key : int
        Of the value.
    priority : int
        Of what answers it; larger ones go first.
    begin : int
        Where the data are in the value's elements that the server has.
    step : int
        Elements of a slice of this value.
    storage : int
        The storage type of the value, as `mx_kvstore.storage` numbers it.
    text, indices, data : int
        Bytes of each that follow.
    """

    command: Command
    key: int = 0
    priority: int = 0
    begin: int = 0
    step: int = 0
    storage: int = DEFAULT
    text: int = 0
    indices: int = 0
    data: int = 0

    def encoded(self) -> Values:
        """What is sent."""
        return np.frombuffer(_NUMBERS.pack(*self), np.int64)

    @staticmethod
    def decoded(numbers: Values, source: int) -> Head:
        """The inverse of `encoded`.

        Raises
        ------
        ProtocolError  it is no head of a message
        """
        found = numbers.tolist()
        if len(found) == len(Head._fields) and found[0] in _COMMANDS:
            head = Head(_COMMANDS[found[0]], *found[1:])
            sizes = head.key, head.begin, head.step, head.indices, head.data
            fits = min(sizes) >= 0 and 0 <= head.text <= _LIMIT and head.indices % 8 == 0
            if fits and name_of(head.storage) is not None:
                return head
        raise ProtocolError(f"[KVStore] rank {source} sent a message that is none: {found}")


_NUMBERS = struct.Struct(f"{len(Head._fields)}q")
_COMMANDS = {int(command): command for command in Command}
#: where in a head the sizes of what follows begin
_SIZES = Head._fields.index("text")
_NO_INDICES = np.empty(0, np.int64)


class Message(NamedTuple):
    """A message that has come.

    Parameters
    ----------
    head : Head
    text : object
        JSON value, or None.
    indices : numpy array of int64
        Rows of a row-sparse value; or empty.
    data : numpy array of uint8
    """

    head: Head
    text: Any
    indices: Values
    data: Values


def send(
    comm: Any,
    to: int,
    head: Head,
    text: Any = None,
    data: Values | None = None,
    indices: Values | None = None,
) -> list[Any]:
    """Begins to send a message; what it returns must be kept until all of it is complete.

    Parameters
    ----------
    head : Head
        Without the sizes, which are set here.
    text : object, optional
        JSON value.
    data : numpy array of one dimension, optional
    indices : numpy array of int64 of one dimension, optional
    """
    parts: list[tuple[Values, int]] = []
    if text is not None:
        parts.append((np.frombuffer(json.dumps(text).encode(), np.uint8), TEXT))
    if indices is not None:
        parts.append((indices.view(np.uint8), INDICES))
    if data is not None:
        parts.append((data.view(np.uint8), DATA))
    sizes = {tag: part.nbytes for part, tag in parts}
    whole = Head._make((*head[:_SIZES], sizes.get(TEXT, 0), sizes.get(INDICES, 0), sizes.get(DATA, 0)))
    pending = [comm.Isend(whole.encoded(), to, HEAD)]
    return pending + [comm.Isend(part, to, tag) for part, tag in parts if part.nbytes]


def ended(requests: list[Any]) -> list[int]:
    """Places of the requests of MPI that are complete; asks for all at once."""
    from mpi4py import MPI

    return MPI.Request.Testsome(requests) or []


def receive(comm: Any, source: int, room: Callable[[Head, Any], Values]) -> Message:
    """Receives the message whose head is there.

    Parameters
    ----------
    room : callable
        (head, text) -> bytes to receive the data into; it may refuse the message.

    Raises
    ------
    ProtocolError  it is none
    """
    numbers = np.empty(len(Head._fields), np.int64)
    comm.Recv(numbers, source, HEAD)
    head = Head.decoded(numbers, source)
    text = None
    if head.text:
        said = np.empty(head.text, np.uint8)
        comm.Recv(said, source, TEXT)
        text = json.loads(said.tobytes())
    data = room(head, text)
    indices = _NO_INDICES
    if head.indices:
        indices = np.empty(head.indices // 8, np.int64)
        comm.Recv(indices.view(np.uint8), source, INDICES)
    if head.data:
        comm.Recv(data[: head.data], source, DATA)
    return Message(head, text, indices, data[: head.data])


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
