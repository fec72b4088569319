# SPDX-License-Identifier: Apache-2.0
"""Exchanges as phases: after each of them all workers have the sum of what each one gave.

`nodes` are numbers of nodes: of one group, or a row for each of several groups that do the same at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .network import Array, Link, Messages, Phase, Round, Together


def _shifted(nodes: Array, shift: int, size: float) -> Round:
    """Each node of a group sends to the one so many places further."""
    return nodes.ravel(), np.roll(nodes, -shift, axis=1).ravel(), size


def ring(nodes: Array, size: float, link: Link, work: float = 0.0) -> list[Phase]:
    """Parts go around twice: first they are added, then they are told. Each node sends to its neighbour only."""
    groups = np.atleast_2d(nodes)
    count = groups.shape[1]

    def around(can: Array) -> Iterator[Round]:
        return (_shifted(groups, 1, size / count) for _ in range(count - 1))

    return [Messages(link, around, True, work), Messages(link, around, True)]


def parts(nodes: Array, size: float, link: Link, work: float = 0.0) -> list[Phase]:
    """Each node gets its part from all others, adds it, and gives the sum to them: what the store over MPI does."""
    groups = np.atleast_2d(nodes)
    count = groups.shape[1]

    def among(can: Array) -> Iterator[Round]:
        return (_shifted(groups, shift, size / count) for shift in range(1, count))

    return [Messages(link, among, False, work), Messages(link, among, False)]


def gathered(nodes: Array, size: float, link: Link, work: float = 0.0) -> list[Phase]:
    """Each node gets all that the others have, and adds it itself: the way of codes, as a sum of codes is none."""
    groups = np.atleast_2d(nodes)

    def around(can: Array) -> Iterator[Round]:
        return (_shifted(groups, 1, size) for _ in range(groups.shape[1] - 1))

    return [Messages(link, around, True, work)]


def _levels(count: int) -> Array:
    """Of the nodes of a binary tree, in the order of a heap: how far each is from the root."""
    found: Array = np.floor(np.log2(np.arange(count) + 1)).astype(int)
    return found


def _along(groups: Array, begin: Array, size: float, chunks: int, upward: bool) -> Iterator[Round]:
    """Chunks along the edges of a tree: that above node i carries chunk k in round `begin[i] + 2 * k`."""
    children = np.arange(1, groups.shape[1])
    ends = groups[:, children], groups[:, (children - 1) // 2]
    source, target = ends if upward else ends[::-1]
    last = int(begin[1:].max()) + 2 * (chunks - 1) if children.size else -1
    for turn in range(last + 1):
        since = turn - begin[children]
        now = (since >= 0) & (since % 2 == 0) & (since < 2 * chunks)
        yield source[:, now].ravel(), target[:, now].ravel(), size / chunks


def reduced(nodes: Array, size: float, link: Link, work: float = 0.0, chunks: int = 32) -> list[Phase]:
    """Sums travel up a binary tree, in chunks: the first node of each group has the sum."""
    groups = np.atleast_2d(nodes)
    level, place = _levels(groups.shape[1]), np.arange(groups.shape[1])
    begin = 2 * (level.max() - level) + (place - 1) % 2
    return [Messages(link, lambda can: _along(groups, begin, size, chunks, True), True, work)]


def told(nodes: Array, size: float, link: Link, chunks: int = 32) -> list[Phase]:
    """What the first node of each group has travels down a binary tree, in chunks."""
    groups = np.atleast_2d(nodes)
    level, place = _levels(groups.shape[1]), np.arange(groups.shape[1])
    begin = 2 * (level - 1) + (place - 1) % 2
    return [Messages(link, lambda can: _along(groups, begin, size, chunks, False), True)]


def tree(nodes: Array, size: float, link: Link, work: float = 0.0, chunks: int = 32) -> list[Phase]:
    """Up a binary tree, and down again."""
    return [*reduced(nodes, size, link, work, chunks), *told(nodes, size, link, chunks)]


def servers(
    workers: Array, servers: Array, size: float, link: Link, work: float = 0.0, answer: float | None = None
) -> list[Phase]:
    """Each worker gives each server a part; servers add them, and give the sums to all.

    Servers take what is ready first. They are nodes of their own, ready from the beginning.

    Parameters
    ----------
    work : float
        Seconds per byte of adding, which servers do while the next part comes.
    answer : float, optional
        Bytes of all answers to a worker, where they differ from those of its pushes.
    """
    turns, places = max(len(workers), len(servers)), np.arange(len(servers))

    def pairs(order: Array, size: float) -> Iterator[tuple[Array, Array, float]]:
        for turn in range(turns):
            worker = (turn + places) % turns
            there = worker < len(order)
            yield order[worker[there]], servers[there], size / len(servers)

    def pushed(can: Array) -> Iterator[Round]:
        return pairs(workers[np.argsort(can[workers], kind="stable")], size)

    def pulled(can: Array) -> Iterator[Round]:
        back = size if answer is None else answer
        return ((server, worker, each) for worker, server, each in pairs(workers, back))

    return [Messages(link, pushed, False, work), Messages(link, pulled, False)]


def hierarchical(per_host: int, inside: float, among: list[Phase]) -> list[Phase]:
    """Sums are made in each host first, one worker of each exchanges with the other hosts, and tells the others.

    Parameters
    ----------
    per_host : int
        Workers of a host; the first of each is the one that exchanges.
    inside : float
        Seconds of a whole exchange inside of a host: half of it is before, half of it after the others.
    among : list
        The exchange between hosts.
    """
    return [Together(per_host, inside / 2), *among, Together(per_host, inside / 2)]
