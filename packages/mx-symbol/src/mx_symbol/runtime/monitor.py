# SPDX-License-Identifier: Apache-2.0
"""Runs a bound graph node by node, so that every value can be observed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from mx_ndarray import NDArray
from mx_symbol.graph import Entry, Node
from mx_symbol.runtime.input_names import monitored_input_names
from mx_symbol.runtime.program import Launch


class Monitored:
    """A program in which every value has an array of its own and every node is a part.

    Threads: one at a time.

    Parameters
    ----------
    nodes : what the parts are; the first `n_forward` belong to forward
    arrays : of every value that is shown
    compiled : function of is_train
        The program, on these arrays.
    callback : function of (name, NDArray)
    monitor_all : bool
        Inputs too, under the names of variables and of what the node calls them, not only outputs. The two names may be
        the same, as of a weight: then it is reported twice, as in MXNet.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        n_forward: int,
        arrays: Mapping[Entry, NDArray],
        compiled: Callable[[bool], Launch],
        callback: Callable[[str, NDArray], None],
        monitor_all: bool,
    ) -> None:
        self._nodes, self._n_forward = nodes, n_forward
        self._arrays = arrays
        self._compiled = compiled
        self._callback = callback
        self._all = monitor_all
        self._programs: dict[bool, Launch] = {}
        self._is_train = False

    def _program(self) -> Launch:
        program = self._programs.get(self._is_train)
        if program is None:
            program = self._programs[self._is_train] = self._compiled(self._is_train)
        return program

    def forward(self, is_train: bool) -> None:
        """Runs the forward nodes, reporting each."""
        self._is_train = is_train
        self._run_all(range(self._n_forward))

    def backward(self) -> None:
        """Runs the backward nodes, reporting each."""
        self._run_all(range(self._n_forward, len(self._nodes)))

    def _run_all(self, times: Iterable[int]) -> None:
        for time in times:
            self._run(time)
            self._report_outputs(self._nodes[time])

    def _run(self, time: int) -> None:
        node = self._nodes[time]
        if self._all:
            for name, entry in zip(monitored_input_names(node), node.inputs, strict=True):
                if entry not in self._arrays:
                    continue
                if entry.node.is_variable:
                    self._callback(entry.name, self._arrays[entry])
                self._callback(f"{node.name}_{name}", self._arrays[entry])
        self._program().push(time)

    def _report_outputs(self, node: Node) -> None:
        for i in range(node.num_visible_outputs):
            entry = Entry(node, i)
            if entry in self._arrays:
                self._callback(entry.name, self._arrays[entry])
