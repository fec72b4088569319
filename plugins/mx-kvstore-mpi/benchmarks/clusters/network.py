# SPDX-License-Identifier: Apache-2.0
"""Nodes that send messages over links: when each of them has what it waits for.

An exchange is a list of phases. A phase of messages is a list of rounds; in a round a node sends at most one message
and gets at most one. A node does its rounds in their order, as soon as its links and what it sends allow. Its times
follow from those of the round before, so all nodes are computed at once, and ten thousand of them take seconds.

Source: the LogGP model (Alexandrov, Ionescu, Schauser, Scheiman, 1995): latency, overhead, time per byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

#: times or numbers of nodes
Array = np.ndarray[Any, np.dtype[Any]]
#: senders, receivers, bytes of each message
Round = tuple[Array, Array, float]


@dataclass(frozen=True)
class Link:
    """What a message costs. Both directions of a node's link are in use at once.

    Parameters
    ----------
    rate : float
        Bytes per second.
    latency : float
        Seconds from the end of sending to arrival.
    overhead : float
        Seconds for which a message takes the link besides its bytes.
    """

    rate: float
    latency: float = 0.0
    overhead: float = 0.0

    def seconds(self, size: float) -> float:
        """For which a message of so many bytes takes the link."""
        return self.overhead + size / self.rate


@dataclass(frozen=True)
class Messages:
    """A phase in which nodes send to each other.

    Parameters
    ----------
    link : Link
    rounds : callable
        (times from which nodes can send) -> rounds in order.
    chained : bool
        Whether a node sends on what it gets in this phase; else it sends what it has from the beginning.
    work : float
        Seconds per byte that a node needs for what it gets, to add or to expand it.
    """

    link: Link
    rounds: Callable[[Array], Iterator[Round]]
    chained: bool
    work: float = 0.0


@dataclass(frozen=True)
class Together:
    """A phase of nodes of one host, such as an exchange through memory: all go on after the last one and some seconds.

    Parameters
    ----------
    size : int
        Nodes in a row that belong together; 1: each by itself.
    seconds : float
    """

    size: int
    seconds: float


Phase = Messages | Together


@dataclass
class Outcome:
    """How an exchange went.

    Attributes
    ----------
    done : numpy.ndarray
        When each node had all; seconds.
    sent : numpy.ndarray
        Bytes that each node has sent over links.
    """

    done: Array
    sent: Array

    @property
    def end(self) -> float:
        """When the last node had all."""
        return float(self.done.max())


def run(phases: Sequence[Phase], ready: Array) -> Outcome:
    """Times of an exchange.

    Parameters
    ----------
    phases : sequence
        Made by `schedules`.
    ready : numpy.ndarray
        From when each node has what it gives.
    """
    have, sent = np.array(ready, float), np.zeros(len(ready))
    free: dict[Link, tuple[Array, Array]] = {}
    for phase in phases:
        if isinstance(phase, Together):
            last = have[: len(have) // phase.size * phase.size].reshape(-1, phase.size).max(1)
            have[: last.size * phase.size] = np.repeat(last + phase.seconds, phase.size)
            continue
        out, into = free.setdefault(phase.link, (np.zeros(len(have)), np.zeros(len(have))))
        can = have if phase.chained else have.copy()
        for source, target, size in phase.rounds(can):
            end = np.maximum(np.maximum(can[source], out[source]), into[target]) + phase.link.seconds(size)
            out[source] = into[target] = end
            have[target] = np.maximum(have[target], end + phase.link.latency) + size * phase.work
            sent[source] += size
    return Outcome(have, sent)
