# SPDX-License-Identifier: Apache-2.0
"""Messages between the hub of a job and its processes: a closed set of JSON objects on an authenticated connection.

Nothing is unpickled and nothing is evaluated. Both sides prove that they know the job's token, which is never sent:
each answers the other's random challenge with an HMAC of it.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import secrets
import socket
import struct
from typing import Any

from mx_kvstore_mpi.errors import ProtocolError

#: longest message, in bytes
LIMIT = 1 << 16
#: seconds that a handshake may take
HANDSHAKE = 10.0

_SIZE = struct.Struct(">I")


def new_token() -> str:
    """256 random bits as hexadecimal text."""
    return secrets.token_hex(32)


def framed(message: dict[str, Any]) -> bytes:
    """What is sent of a message.

    Raises
    ------
    ProtocolError  it is too long
    """
    data = json.dumps(message).encode()
    if len(data) > LIMIT:
        raise ProtocolError(f"[hub] a message has {len(data)} bytes; at most {LIMIT} are allowed")
    return _SIZE.pack(len(data)) + data


class Channel:
    """One connection. Threads: one sends and one receives at a time.

    Parameters
    ----------
    sock : socket.socket
        A connected one, which the channel owns.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, message: dict[str, Any]) -> None:
        """Sends a message.

        Raises
        ------
        OSError  the peer is gone
        """
        self.socket.sendall(framed(message))

    def receive(self) -> dict[str, Any] | None:
        """The next message; None when the peer has closed the connection.

        Raises
        ------
        TimeoutError   nothing came within the socket's timeout
        ProtocolError  it is no message
        """
        head = self._exactly(_SIZE.size)
        if head is None:
            return None
        size = _SIZE.unpack(head)[0]
        if size > LIMIT:
            raise ProtocolError(
                f"[hub] a peer announces a message of {size} bytes; at most {LIMIT} are allowed"
            )
        data = self._exactly(size)
        if data is None:
            return None
        try:
            message = json.loads(data)
        except (ValueError, RecursionError):
            raise ProtocolError(f"[hub] expected a JSON object, got {data[:60]!r}") from None
        if not isinstance(message, dict):
            raise ProtocolError(f"[hub] expected a JSON object, got {data[:60]!r}")
        return message

    def _exactly(self, size: int) -> bytes | None:
        parts = []
        while size > 0:
            try:
                part = self.socket.recv(size)
            except ConnectionError:
                return None
            if not part:
                return None
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def close(self) -> None:
        """Ends the connection; the other side's `receive` returns None."""
        with contextlib.suppress(OSError):  # it has ended already
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


def _proof(token: str, side: str, ours: str, theirs: str) -> str:
    text = f"{side}:{ours}:{theirs}".encode("utf-8", "surrogatepass")  # a peer may say anything
    return hmac.new(token.encode(), text, hashlib.sha256).hexdigest()


def _same(given: str, expected: str) -> bool:
    """Whether a proof is right; the time that this takes says nothing of it."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), expected.encode())


def _text(message: dict[str, Any] | None, name: str) -> str:
    value = None if message is None else message.get(name)
    if not isinstance(value, str) or len(value) > 256:
        raise ProtocolError(f"[hub] handshake: expected {name!r}, got {message!r:.80}")
    return value


def accept(sock: socket.socket, token: str) -> Channel:
    """The hub's side of a new connection.

    Raises
    ------
    ProtocolError  the peer does not know the token
    OSError        it has gone, or took too long
    """
    sock.settimeout(HANDSHAKE)
    channel = Channel(sock)
    challenge = secrets.token_hex(16)
    channel.send({"challenge": challenge})
    answer = channel.receive()
    theirs = _text(answer, "challenge")
    if not _same(_text(answer, "proof"), _proof(token, "peer", challenge, theirs)):
        channel.close()
        raise ProtocolError("[hub] a peer does not know the job's token")
    channel.send({"proof": _proof(token, "hub", theirs, challenge)})
    return channel


def connect(address: tuple[str, int], token: str, timeout: float = HANDSHAKE) -> Channel:
    """A process's side: connects to the hub.

    Raises
    ------
    ProtocolError  the hub does not know the token
    OSError        nobody answers there, or too late
    """
    sock = socket.create_connection(address, timeout=timeout)
    try:
        channel = Channel(sock)
        theirs = _text(channel.receive(), "challenge")
        challenge = secrets.token_hex(16)
        channel.send({"challenge": challenge, "proof": _proof(token, "peer", theirs, challenge)})
        answer = channel.receive()
        if answer is None:
            raise ProtocolError(
                f"[KVStore] the hub at {address[0]}:{address[1]} refused this process: MX_KV_TOKEN is not the job's "
                "token"
            )
        if not _same(_text(answer, "proof"), _proof(token, "hub", challenge, theirs)):
            raise ProtocolError(
                f"[KVStore] what answers at {address[0]}:{address[1]} does not know the job's token"
            )
        return channel
    except BaseException:
        sock.close()
        raise
