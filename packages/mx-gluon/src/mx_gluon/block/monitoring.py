# SPDX-License-Identifier: Apache-2.0
"""Shows a function what every operator of a hybridised block computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mx_ndarray import NDArray
from mx_symbol import CachedOp, Symbol
from mx_symbol.graph import Entry
from mx_symbol.runtime.input_names import monitored_input_names

OpHook = Callable[[str, str, NDArray], Any]


class MonitoredOp:
    """A cached operator that also gives what its nodes compute, each to a function.

    Threads: as the function.

    Parameters
    ----------
    graph : Symbol
    flags : of `CachedOp`
    callback : function of (name of the value, name of the operator, NDArray)
    monitor_all : bool
        The inputs of each node, too, not only its outputs.
    """

    def __init__(
        self, graph: Symbol, flags: Sequence[tuple[str, Any]], callback: OpHook, monitor_all: bool
    ) -> None:
        self._callback, self._all = callback, monitor_all
        self._nodes = [node for node in graph.nodes if node.op is not None]
        self._seen = [Entry(node, i) for node in self._nodes for i in range(node.num_visible_outputs)]
        self._variables = [Entry(node) for node in graph.nodes if node.op is None]
        self._op = CachedOp(Symbol((*graph.entries, *self._seen)), flags)
        self._count = len(graph)

    def __call__(self, *args: NDArray) -> list[NDArray]:
        """The outputs of the graph, after the function has seen all values."""
        made = self._op(*args)
        results = [made] if isinstance(made, NDArray) else made
        values = dict(zip(self._variables, args, strict=True))
        values |= zip(self._seen, results[self._count :], strict=True)
        for node in self._nodes:
            assert node.op is not None
            if self._all:
                for name, entry in zip(monitored_input_names(node), node.inputs, strict=True):
                    if entry in values:
                        self._callback(f"{node.name}_{name}", node.op.name, values[entry])
            for i in range(node.num_visible_outputs):
                self._callback(node.output_name(i), node.op.name, values[Entry(node, i)])
        return results[: self._count]
