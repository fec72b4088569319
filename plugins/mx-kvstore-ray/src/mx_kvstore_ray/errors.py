# SPDX-License-Identifier: Apache-2.0
"""What goes wrong between processes. Every failure names the peer and its role."""

from __future__ import annotations

from mx_core.errors import ArgumentError, FileFormatError, MXNetError

#: characters of a text of Ray's in a message
_LONGEST = 600


class PeerLostError(MXNetError):
    """A process of the job has ended, or cannot be reached; the message names it and its role."""


class PeerTimeoutError(MXNetError):
    """A wait for other processes was longer than the deadline, MX_KVSTORE_TIMEOUT."""


class ProtocolError(MXNetError):
    """A process does what does not fit to what the others do."""


class NoJobError(MXNetError):
    """A distributed store was asked for in a process that no launcher has started."""


class ClusterError(MXNetError):
    """A cluster of Ray does not start, or cannot be reached."""


def in_a_line(error: BaseException) -> str:
    """The kind and text of an error of Ray, whose texts have many lines: of one in an actor's start, the last one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines and "creation task" in lines[0]:
        return lines[-1]
    text = " ".join(" ".join(lines).split())
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}…"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


#: errors that a server's answer may name
KINDS: dict[str, type[MXNetError]] = {
    kind.__name__: kind
    for kind in (PeerLostError, PeerTimeoutError, ProtocolError, ArgumentError, FileFormatError, MXNetError)
}
#: those that end the job for who gets them
LASTING = (PeerLostError, PeerTimeoutError, ProtocolError)
