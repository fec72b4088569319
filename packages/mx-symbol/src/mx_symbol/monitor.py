# SPDX-License-Identifier: Apache-2.0
"""Running a bound graph node by node, to look at every value."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mx_core import dtypes
from mx_core.context import Context
from mx_ndarray import NDArray, nd
from mx_symbol._core import Binding
from mx_symbol.bound_graph import BoundGraph
from mx_symbol.graph import Entry, Node
from mx_symbol.program import Calls, Compiler
from mx_symbol.schedule import make_schedule


class Monitored:
    """A program in which every value has an array of its own and every node is a part.

    Parameters
    ----------
    callback : function of (name, NDArray)
    monitor_all : bool
        Inputs too, under the names of variables and of what the node calls them, not only outputs.
    """

    def __init__(
        self,
        graph: BoundGraph,
        arrays: Mapping[Entry, NDArray],
        context: Context,
        calls: Calls,
        callback: Callable[[str, NDArray], None],
        monitor_all: bool,
    ) -> None:
        self._graph = graph
        self._context = context
        self._calls = calls
        self._callback = callback
        self._all = monitor_all
        self._schedule = make_schedule(graph, bool(graph.grads))
        self._arrays = dict(arrays)
        for entry in self._schedule.values:
            if entry not in self._arrays:
                spec = graph.specs[entry]
                self._arrays[entry] = nd.empty(spec.shape, context, dtypes.name(spec.dtype))
        self._programs: dict[bool, Binding] = {}
        self._is_train = False

    def _program(self) -> Binding:
        program = self._programs.get(self._is_train)
        if program is None:
            compiler = Compiler(self._graph, self._schedule, self._arrays, self._context)
            compiled = compiler.compile(self._calls, self._is_train, separate=True)
            program = self._programs[self._is_train] = compiled.bind(self._arrays, None)
        return program

    def forward(self, is_train: bool) -> None:
        """Runs the forward nodes, reporting each."""
        self._is_train = is_train
        for time in range(self._schedule.n_forward):
            self._run(time, self._all)
            self._report_outputs(self._schedule.nodes[time])

    def backward(self) -> None:
        """Runs the backward nodes, reporting each."""
        for time in range(self._schedule.n_forward, len(self._schedule.nodes)):
            self._run(time, self._all)
            self._report_outputs(self._schedule.nodes[time])

    def _run(self, time: int, inputs: bool) -> None:
        node = self._schedule.nodes[time]
        if inputs:
            for name, entry in zip(node.input_names, node.inputs, strict=True):
                if entry not in self._arrays:
                    continue
                if entry.node.is_variable:
                    self._callback(entry.name, self._arrays[entry])
                if entry.name != f"{node.name}_{name}":
                    self._callback(f"{node.name}_{name}", self._arrays[entry])
        self._program().push(time)

    def _report_outputs(self, node: Node) -> None:
        for i in range(node.num_visible_outputs):
            entry = Entry(node, i)
            if entry in self._arrays:
                self._callback(entry.name, self._arrays[entry])
