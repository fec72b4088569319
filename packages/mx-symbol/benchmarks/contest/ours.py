# SPDX-License-Identifier: Apache-2.0
"""Our side: an executor, what its nodes take by themselves, and what they take with oneDNN's direct convolutions."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mx_core.graph import PREPARED
from mx_ndarray import nd
from mx_symbol.graph import Node
from mx_symbol.memory.cost import cost
from mx_symbol.runtime.executor import Executor

#: runs of one node between two waits, so that waiting does not count; seconds that are enough
REPEATS, LONGEST = 8, 0.02
#: seconds of a node below which its push and its share of a wait, together some 3 us, are not small beside it
SHORTEST = 50e-6
#: operators that compute; everything else moves bytes
_LAYERS = frozenset(
    {"Convolution", "_fused_Convolution", "FullyConnected", "_fused_FullyConnected", "batch_dot", "RNN",
     "_onednn_RNN", "_fused_attention"}
)  # fmt: skip
_BACKWARD = frozenset({"_backward_Convolution", "_backward_FullyConnected", "_backward_RNN"})


def fill(
    executor: Executor, data: Callable[[Any], np.ndarray], given: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Gives all arrays those values that are given, others values at which activations keep their scale; returns
    them by name."""
    rng = np.random.default_rng(0)
    result = {}
    for name, array in {**executor.arg_dict, **executor.aux_dict}.items():
        fan = max(int(np.prod(array.shape[1:])), 1)
        drawn = rng.standard_normal(array.shape) * (2 / fan) ** 0.5
        if name.endswith(("gamma", "var")):
            drawn = 1 + 0.1 * np.abs(rng.standard_normal(array.shape))
        elif len(array.shape) == 1:
            drawn = rng.uniform(-0.04, 0.04, array.shape)
        drawn = data(rng) if name == "data" else given.get(name, drawn)
        result[name] = np.asarray(drawn, np.float32)
        array[:] = result[name]
    return result


def bandwidth() -> float:
    """Bytes per second, read and written, of copying a large array."""
    source = nd.ones((1 << 26,))
    target = nd.zeros((1 << 26,))
    times = []
    for _ in range(5):
        nd.waitall()
        began = time.perf_counter()
        source.copyto(target)
        nd.waitall()
        times.append(time.perf_counter() - began)
    return 8.0 * source.size / min(times)


class Alone:
    """Every node of a program run by itself, again and again.

    Parameters
    ----------
    training : bool
        The program of a training step; else that of inference.
    """

    def __init__(self, executor: Executor, training: bool) -> None:
        self._program, nodes = executor.separate_program(training)
        self._specs = executor._optimized(executor._mode(training)).specs
        self._training = training
        self._layers = _LAYERS | _BACKWARD if training else _LAYERS
        self._nodes = {part: node for part, node in enumerate(nodes) if PREPARED not in node.attrs}
        self._best: dict[int, float] = {}
        for part in range(len(nodes)):
            self._program.push(part)

    def measure(self) -> None:
        """Takes a turn: the best times of nodes so far stay."""
        for part in self._nodes:
            best = self._best.get(part, float("inf"))
            repeats = 1 + int(min(LONGEST / best, REPEATS))
            self._best[part] = min(best, _turn(self._program, part, repeats))

    def limit(self) -> float | None:
        """Seconds that nothing could be faster than: the layers' times, and in training the bytes that all else
        moves over the bandwidth of a copy. What inference does beside its layers counts as nothing, because it
        can be part of them. None where layers are so short that they cannot be measured by themselves."""
        times = [t for part, t in self._best.items() if _name(self._nodes[part]) in self._layers]
        layers = sum(times)
        if layers < SHORTEST * len(times) or not times:
            return None
        if not self._training:
            return layers
        others = [node for node in self._nodes.values() if _name(node) not in self._layers]
        return layers + sum(cost(node, self._specs) for node in others) / bandwidth()

    def total(self) -> float:
        """Seconds of all nodes."""
        return sum(self._best.values())


def _name(node: Node) -> str:
    return "" if node.op is None else node.op.name


def _turn(program: Any, part: int, repeats: int) -> float:
    """Seconds of one run of a node."""
    nd.waitall()
    began = time.perf_counter()
    for _ in range(repeats):
        program.push(part)
    nd.waitall()
    return (time.perf_counter() - began) / repeats
