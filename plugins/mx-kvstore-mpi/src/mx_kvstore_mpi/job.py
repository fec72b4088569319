# SPDX-License-Identifier: Apache-2.0
"""Who takes part in a job, and what the processes' numbers mean."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    """The processes of a job: workers have the first numbers, servers those that follow.

    Parameters
    ----------
    workers, servers : int
        How many there are.
    name : str
        Distinguishes jobs of one machine.
    generation : int
        Counts the starts of the job; messages of another one are void.
    """

    workers: int
    servers: int = 0
    name: str = "mx"
    generation: int = 1

    @property
    def size(self) -> int:
        """All processes."""
        return self.workers + self.servers

    @property
    def meeting(self) -> str:
        """What MPI's processes call the place where they meet: of this job and this start alone."""
        return f"kvs_{self.name}_{self.generation}"

    def role(self, number: int) -> str:
        """`worker` or `server`."""
        return "worker" if number < self.workers else "server"

    def rank(self, number: int) -> int:
        """The number among those of the same role."""
        return number if number < self.workers else number - self.workers

    def called(self, number: int) -> str:
        """`worker 3`, `server 0`: how messages name a process."""
        return f"{self.role(number)} {self.rank(number)}"

    def numbers(self, role: str) -> range:
        """The numbers of the processes of a role."""
        return range(self.workers) if role == "worker" else range(self.workers, self.size)
