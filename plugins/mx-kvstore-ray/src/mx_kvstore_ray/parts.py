# SPDX-License-Identifier: Apache-2.0
"""Which server holds which part of a value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """Elements `begin` to `end` of a value in row-major order, on a server.

    Parameters
    ----------
    server : int
        From 0.
    begin, end : int
    """

    server: int
    begin: int
    end: int

    @property
    def elements(self) -> slice:
        """Where they are."""
        return slice(self.begin, self.end)


def parts(place: int, size: int, servers: int, bound: int) -> list[Part]:
    """The parts of the value of a key: one, or from `bound` elements on one per server.

    Source: MXNet's rule for arrays of at least MXNET_KVSTORE_BIGARRAY_BOUND elements.

    Parameters
    ----------
    place : int
        Of the key among those of its store, in the order in which they were initialised.
    size : int
        Elements of the value.
    servers : int
    bound : int
    """
    if servers == 1 or size < bound:
        return [Part(place * 9973 % servers, 0, size)]
    ends = [size * server // servers for server in range(servers + 1)]
    return [Part(server, ends[server], ends[server + 1]) for server in range(servers)]
