# SPDX-License-Identifier: Apache-2.0
"""What goes wrong between processes. Every failure names the peer and its role."""

from __future__ import annotations

from mx_core.errors import MXNetError


class PeerLostError(MXNetError):
    """A process of the job has ended, or cannot be reached; the message names it and its role."""


class PeerTimeoutError(MXNetError):
    """A wait for other processes was longer than the deadline, MX_KVSTORE_TIMEOUT."""


class ProtocolError(MXNetError):
    """A peer sent what it must not send, or does not know the job's token."""


class NoJobError(MXNetError):
    """A distributed store was asked for in a process that no launcher has started."""
