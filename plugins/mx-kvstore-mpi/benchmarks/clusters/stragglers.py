# SPDX-License-Identifier: Apache-2.0
"""Steps of a training whose workers do not always compute as fast, with an exchange that waits for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .network import Array, Phase, run


@dataclass(frozen=True)
class Compute:
    """How long workers compute.

    Parameters
    ----------
    mean : float
        Seconds of a step.
    jitter : float
        Standard deviation, as a part of the mean.
    slow : float
        Probability that a step of a worker is slow.
    factor : float
        By how much a slow step takes longer.
    """

    mean: float
    jitter: float = 0.0
    slow: float = 0.0
    factor: float = 1.0

    def draw(self, random: np.random.Generator, workers: int, steps: int) -> Array:
        """Seconds of each step (columns) of each worker (rows)."""
        drawn = self.mean * np.maximum(1 + self.jitter * random.standard_normal((workers, steps)), 0.1)
        found: Array = np.where(random.random((workers, steps)) < self.slow, self.factor, 1.0) * drawn
        return found


def train(compute: Array, phases: Sequence[Phase], nodes: int = 0) -> float:
    """Seconds per step when each step of a worker begins with what the exchange of the last one has given it.

    Parameters
    ----------
    compute : numpy.ndarray
        Seconds of each step (columns) of each worker (rows), which are the first nodes.
    phases : sequence
        The exchange.
    nodes : int
        Of the exchange; by default the workers.
    """
    workers, steps = compute.shape
    begun = np.zeros(max(nodes, workers))
    for step in range(steps):
        begun[:workers] += compute[:, step]
        begun[workers:] = 0.0
        begun = run(phases, begun).done
    return float(begun[:workers].max() / steps)
