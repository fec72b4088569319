# SPDX-License-Identifier: Apache-2.0
"""What workers and servers send each other by MPI: a head of whole numbers, then a JSON text, indices and values.

Small messages to one process travel together, in a packet: one behind the other, each part filled up to eight bytes.
What is large is a message of MPI of its own, after the packet with its head. The set of commands is closed; a text
holds names and numbers only.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from mx_kvstore.arrays import Values
from mx_kvstore.storage import DEFAULT, name_of
from mx_kvstore_mpi.errors import ProtocolError

#: tags of MPI: packets of heads, large parts of what belongs to them, answers to commands, packets of small values,
#: and large values by the numbers of their keys
HEAD, TEXT, DATA, ANSWER, INDICES, VALUES, VALUE = 1, 2, 3, 4, 5, 6, 100
#: longest text, in bytes
_LIMIT = 1 << 24
#: bytes of a part that travels in a packet, at most
_SMALL = 4096
#: to what number of bytes a part is filled up
_FILLED = 8
#: bytes of small messages that travel in one packet, about
PACKET = 1 << 14


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
    push : int
        Of one that is summed with those of others: which of this worker's pushes of the key it is, from 1; or 0.
    text, indices, data : int
        Bytes of each that follow.
    """

    command: Command
    key: int = 0
    priority: int = 0
    begin: int = 0
    step: int = 0
    storage: int = DEFAULT
    push: int = 0
    text: int = 0
    indices: int = 0
    data: int = 0

    @staticmethod
    def decoded(packet: Values, at: int, source: int) -> Head:
        """The head that begins at a place of a packet.

        Raises
        ------
        ProtocolError  there is none
        """
        if packet.size - at >= _NUMBERS.size:
            found = _NUMBERS.unpack_from(packet.data, at)
            command, key, _, begin, step, storage, push, text, indices, data = found
            fits = (
                min(key, begin, step, push, indices, data) >= 0 and 0 <= text <= _LIMIT and indices % 8 == 0
            )
            if command in _COMMANDS and fits and (storage == DEFAULT or name_of(storage) is not None):
                return Head._make((_COMMANDS[command], *found[1:]))
        raise _no_message(source, packet[at : at + _NUMBERS.size])


def _no_message(source: int, found: Values) -> ProtocolError:
    return ProtocolError(
        f"[KVStore] rank {source} sent a message that is none: {found.tobytes().hex(' ', 8)}"
    )


_NUMBERS = struct.Struct(f"{len(Head._fields)}q")
#: bytes of a packet beside the data of a small value, at most
OVERHEAD = _NUMBERS.size + _FILLED
_COMMANDS = {int(command): command for command in Command}
#: where in a head the sizes of what follows begin
_SIZES = Head._fields.index("text")
_NO_INDICES = np.empty(0, np.int64)
_NOTHING = np.empty(0, np.uint8)
_FILL = [bytes(count) for count in range(_FILLED)]
#: of a small value: the number of its key, and bytes
_VALUE = struct.Struct("2q")


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


class Encoded(NamedTuple):
    """A message that is to be sent.

    Parameters
    ----------
    record : list of buffers
        What a packet has of it.
    apart : list of (numpy array, int)
        What follows the packet, and the tag of each; must stay as it is until it is sent.
    """

    record: list[Any]
    apart: list[tuple[Values, int]]


def encoded(
    head: Head, text: Any = None, data: Values | None = None, indices: Values | None = None
) -> Encoded:
    """A message.

    Parameters
    ----------
    head : Head
        Without the sizes, which are set here.
    text : object, optional
        JSON value.
    data : numpy array of one dimension, optional
    indices : numpy array of int64 of one dimension, optional
    """
    said = _NOTHING if text is None else np.frombuffer(json.dumps(text).encode(), np.uint8)
    rows = _NOTHING if indices is None else indices.view(np.uint8)
    values = _NOTHING if data is None else data.view(np.uint8)
    found = Encoded([_NUMBERS.pack(*head[:_SIZES], said.size, rows.size, values.size)], [])
    for part, tag in ((said, TEXT), (rows, INDICES), (values, DATA)):
        if part.size > _SMALL:
            found.apart.append((part, tag))
        elif part.size:
            found.record.extend((part, _FILL[-part.size % _FILLED]))
    return found


def encoded_push(number: int, priority: int, step: int, push: int, values: Values) -> list[Any]:
    """The record of a push of a small value, as one slice."""
    data = values.view(np.uint8)
    head = _NUMBERS.pack(Command.PUSH, number, priority, 0, step, DEFAULT, push, 0, 0, data.size)
    return [head, data, _FILL[-data.size % _FILLED]]


def encoded_value(number: int, values: Values, small: bool) -> Encoded:
    """A slice of the value of a key, as a server answers it.

    Parameters
    ----------
    small : bool
        What `small` says of its slices.
    """
    data = values.view(np.uint8)
    if not small:
        return Encoded([], [(data, VALUE + number)])
    return Encoded([_VALUE.pack(number, data.size), data, _FILL[-data.size % _FILLED]], [])


def small(elements: int, step: int, itemsize: int) -> bool:
    """Whether slices of `step` of so many elements are answered in packets: all of them, or none."""
    return min(elements, step) * itemsize <= _SMALL


def at_once(sizes: Iterable[int]) -> int:
    """How many small messages a packet has room for, the data of none of which has more bytes than the largest."""
    return max(1, PACKET // (_NUMBERS.size + max(sizes)))


def send(comm: Any, to: int, tag: int, messages: list[Encoded]) -> list[Any]:
    """Begins to send messages, the small parts in one packet; what it returns must be kept until all is complete."""
    packet = b"".join(part for each in messages for part in each.record)
    pending = [comm.Isend(np.frombuffer(packet, np.uint8), to, tag)] if packet else []
    return pending + [comm.Isend(part, to, its) for each in messages for part, its in each.apart]


def ended(requests: list[Any]) -> list[int]:
    """Places of the requests of MPI that are complete; asks for all at once."""
    from mpi4py import MPI

    return MPI.Request.Testsome(requests) or []


def there(comm: Any, tag: int) -> tuple[int, int] | None:
    """Of a message of this tag that is there: from whom, and bytes."""
    from mpi4py import MPI

    status = MPI.Status()
    if not comm.Iprobe(MPI.ANY_SOURCE, tag, status):
        return None
    return status.Get_source(), status.Get_count(MPI.BYTE)


def receive(comm: Any, source: int, size: int, room: Callable[[Head, Any], Values]) -> Iterator[Message]:
    """Receives a packet that is there, and gives its messages one after the other.

    Parameters
    ----------
    size : int
        Bytes of the packet.
    room : callable
        (head, text) -> bytes to receive the data into; it may refuse the message.

    Raises
    ------
    ProtocolError  it is none
    """
    packet = _packet(comm, source, size, HEAD)
    at = 0

    def part(count: int, tag: int, into: Values | None = None) -> Values:
        """The next part of a message, from the packet or by itself."""
        nonlocal at
        if count > _SMALL:
            found = np.empty(count, np.uint8) if into is None else into
            comm.Recv(found, source, tag)
            return found
        found = packet[at : at + count]
        if found.size < count:
            raise _no_message(source, found)
        at += count + -count % _FILLED
        if into is None:
            return found
        into[:] = found
        return into

    while at < size:
        head = Head.decoded(packet, at, source)
        at += _NUMBERS.size
        text = json.loads(part(head.text, TEXT).tobytes()) if head.text else None
        data = room(head, text)[: head.data]
        indices = part(head.indices, INDICES).view(np.int64) if head.indices else _NO_INDICES
        if head.data:
            part(head.data, DATA, data)
        yield Message(head, text, indices, data)


def values(comm: Any, source: int, size: int) -> Iterator[tuple[int, Values]]:
    """Receives a packet of values that is there: numbers of keys, and bytes."""
    packet = _packet(comm, source, size, VALUES)
    at = 0
    while at < size:
        number, count = _VALUE.unpack_from(packet.data, at)
        at += _VALUE.size
        yield number, packet[at : at + count]
        at += count + -count % _FILLED


def _packet(comm: Any, source: int, size: int, tag: int) -> Values:
    found = np.empty(size, np.uint8)
    comm.Recv(found, source, tag)
    return found


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
