# SPDX-License-Identifier: Apache-2.0
"""Training with servers that do not wait for all workers: how long steps take, and how old values are.

Source: stale synchronous parallel (Ho et al., 2013): a worker may be at most some steps ahead of the slowest one.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import simpy

from .network import Array, Link


@dataclass
class Course:
    """How a training went.

    Attributes
    ----------
    end : float
        When the last worker had ended its last step; seconds.
    lag : list of int
        For each step of each worker in the order in which they began: how many steps of the slowest worker were
        missing in the values that it began with.
    """

    end: float = 0.0
    lag: list[int] = field(default_factory=list)


class _Clock:
    """Steps that all workers have done, for those that wait for them."""

    def __init__(self, env: simpy.Environment, workers: int) -> None:
        self._env = env
        self._left: dict[int, int] = {}
        self._reached: dict[int, Any] = {}
        self._workers = workers
        self.slowest = 0

    def done(self, step: int) -> None:
        """One worker has done as many steps."""
        left = self._left[step] = self._left.get(step, self._workers) - 1
        if left == 0:
            self.slowest = step
            if step in self._reached:
                self._reached.pop(step).succeed()

    def reached(self, step: int) -> Any:
        """An event: all have done as many steps."""
        if step not in self._reached:
            self._reached[step] = self._env.event()
        return self._reached[step]


class _Way:
    """One direction of a server's link, which messages take in the order in which they come."""

    def __init__(self, env: simpy.Environment) -> None:
        self._env = env
        self._free = 0.0

    def through(self, after: float, seconds: float) -> float:
        """Seconds from now until a message has passed that comes after so many seconds."""
        self._free = max(self._free, self._env.now + after) + seconds
        return float(self._free - self._env.now)


def train(compute: Array, bound: int, servers: int, size: float, link: Link) -> Course:
    """Workers compute, push, and pull; a server applies each push when it comes.

    All servers are alike: each gets as many bytes from each worker in the same order, so one stands for all of them.

    Parameters
    ----------
    compute : numpy.ndarray
        Seconds of each step (columns) of each worker (rows).
    bound : int
        Steps that a worker may be ahead of the slowest one; 0: all begin a step together. Of the steps of others, the
        values that a worker begins with lack at most so many.
    servers : int
    size : float
        Bytes of all values.
    link : Link
    """
    workers, steps = compute.shape
    env, course = simpy.Environment(), Course()
    clock, into, out = _Clock(env, workers), _Way(env), _Way(env)
    part = link.seconds(size / servers)
    whole = link.overhead * servers + size / link.rate  # of the parts that a worker sends to all servers

    def work(worker: int) -> Generator[Any, Any, None]:
        for step in range(steps):
            if clock.slowest < step - bound:
                yield clock.reached(step - bound)
            course.lag.append(step - clock.slowest)
            yield env.timeout(max(out.through(0.0, part), whole) + link.latency)
            yield env.timeout(float(compute[worker, step]))
            yield env.timeout(max(into.through(link.latency, part), whole + link.latency))
            clock.done(step + 1)

    for worker in range(workers):
        env.process(work(worker))
    env.run()
    course.end = float(env.now)
    return course
