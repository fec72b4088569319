# SPDX-License-Identifier: Apache-2.0
"""Graphs with shapes that depend on values, cut into partitions, on one device or several.

A partition is a compiled program on one device, a copy between devices, or one operator that is called: its outputs
have shapes that only its run tells, or it keeps a state for its gradient, of which each call has its own. Each
partition runs when the partitions it reads have run. Between partitions autograd keeps the record, so gradients go the
same way back. Partitions on different devices that do not read each other run at the same time: the engine orders them
by the arrays they touch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mx_core.context import Context
from mx_ndarray import NDArray
from mx_ndarray.operator_functions import function
from mx_symbol._core import FlatGraph
from mx_symbol.graph import Entry, Node, topological_order
from mx_symbol.passes import Passes
from mx_symbol.runtime.devices import Devices, is_copy

if TYPE_CHECKING:
    from mx_symbol.runtime.cached_op import CachedOp


def is_dynamic(node: Node) -> bool:
    """True when only running the node tells the shapes of its outputs."""
    return node.op is not None and node.op.dynamic_output


def has_dynamic(graph: FlatGraph) -> bool:
    """True for a graph with such a node."""
    return any(facts.op.dynamic_output for facts in graph.kinds)


def has_state(graph: FlatGraph) -> bool:
    """True for a graph with an operator that keeps a state for its gradient."""
    return any(facts.op.keeps_state for facts in graph.kinds)


@dataclass(frozen=True)
class Partition:
    """Some nodes of a graph that run together.

    Attributes
    ----------
    nodes : in order
    context : where
    inputs, outputs : entries of the whole graph that it reads and that others read
    program : what computes it; None for a copy and for an operator that runs alone
    """

    nodes: tuple[Node, ...]
    context: Context | None
    inputs: tuple[Entry, ...]
    outputs: tuple[Entry, ...]
    program: CachedOp | None

    def run(self, values: Sequence[NDArray]) -> list[NDArray]:
        """The outputs."""
        if self.program is not None:
            made = self.program(*values)
        elif is_copy(self.nodes[0]):
            assert self.context is not None
            made = values[0].copyto(self.context)
        else:
            (node,) = self.nodes
            assert node.op is not None and node.params is not None
            made = function(node.op.name)(*values, **node.params.attrs())
        return [made] if isinstance(made, NDArray) else list(made)


Observer = Callable[[Partition, Sequence[NDArray], Sequence[NDArray]], None]


class Partitions:
    """A graph as a list of partitions, called like a function.

    Threads: any may call it, once made.

    Parameters
    ----------
    heads : outputs, in a graph with copies where it crosses devices
    devices : where each node runs; None: where the arrays are
    passes : which graph passes the programs get
    separate : a partition per node, to look at every value
    """

    def __init__(
        self,
        heads: Sequence[Entry],
        devices: Devices | None = None,
        passes: Passes | None = None,
        separate: bool = False,
    ) -> None:
        self._heads = tuple(heads)
        self._devices = devices
        self._passes = passes
        order = topological_order(entry.node for entry in heads)
        self.partitions = tuple(self._partition(nodes, order) for nodes in self._grouped(order, separate))

    def _place(self, node: Node) -> Context | None:
        return None if self._devices is None else self._devices.of(node)

    def _grouped(self, order: Sequence[Node], separate: bool) -> Iterable[list[Node]]:
        """Nodes by level and device. A level ends where a value leaves for another partition, so that its reader need
        not wait for what follows here."""
        levels: dict[Node, int] = {}
        leaving = {
            entry.node
            for node in order
            for entry in node.inputs
            if self._alone(node) or self._place(node) != self._place(entry.node)
        }
        groups: dict[tuple[int, Context | None, Node | None], list[Node]] = {}
        for node in order:
            if node.op is None:
                continue
            alone = separate or self._alone(node)
            level = 0
            for below in {entry.node for entry in node.inputs if entry.node.op is not None}:
                ends = alone or separate or self._alone(below) or below in leaving
                level = max(level, levels[below] + ends)
            levels[node] = level
            groups.setdefault((level, self._place(node), node if alone else None), []).append(node)
        return (groups[key] for key in sorted(groups, key=lambda key: key[0]))

    def _alone(self, node: Node) -> bool:
        return is_dynamic(node) or is_copy(node) or (node.op is not None and node.op.keeps_state)

    def _partition(self, nodes: list[Node], order: Sequence[Node]) -> Partition:
        from mx_symbol.runtime.cached_op import CachedOp
        from mx_symbol.symbol import Symbol

        inside = set(nodes)
        inputs = tuple(dict.fromkeys(e for node in nodes for e in node.inputs if e.node not in inside))
        if self._alone(nodes[0]):
            outputs = tuple(Entry(nodes[0], i) for i in range(nodes[0].num_visible_outputs))
            return Partition(tuple(nodes), self._place(nodes[0]), tuple(nodes[0].inputs), outputs, None)
        read = {entry for node in order if node not in inside for entry in node.inputs} | set(self._heads)
        made = tuple(Entry(node, i) for node in nodes for i in range(node.num_outputs))
        outputs = tuple(entry for entry in made if entry in read)
        copies, moved = _apart(nodes, inputs)
        program = CachedOp(Symbol([Entry(moved[e.node], e.index) for e in outputs]), passes=self._passes)
        by_name = {variable.name: entry for entry, variable in copies.items()}
        given = tuple(by_name[name] for name in program.input_names)
        return Partition(tuple(nodes), self._place(nodes[0]), given, outputs, program)

    def __call__(self, variables: Mapping[str, NDArray], observe: Observer | None = None) -> list[NDArray]:
        """The outputs from arrays by name of variable; asynchronous, except where a shape needs a value.

        Parameters
        ----------
        observe : sees each partition with its inputs and outputs
        """
        table: dict[Entry, NDArray] = {}

        def value(entry: Entry) -> NDArray:
            return variables[entry.node.name] if entry.node.op is None else table[entry]

        for partition in self.partitions:
            values = [value(entry) for entry in partition.inputs]
            if partition.context is not None:
                with partition.context:
                    made = partition.run(values)
            else:
                made = partition.run(values)
            table.update(zip(partition.outputs, made, strict=True))
            if observe is not None:
                observe(partition, values, made)
        return [value(head) for head in self._heads]


def _apart(nodes: Sequence[Node], inputs: Sequence[Entry]) -> tuple[dict[Entry, Node], dict[Node, Node]]:
    """Copies of nodes as a graph of its own: what they read from elsewhere becomes variables."""
    variables: dict[Entry, Node] = {}
    for i, entry in enumerate(inputs):
        name = entry.name if entry.node.op is None else f"{entry.name}:{i}"
        variables[entry] = Node(None, None, name, entry.node.attrs if entry.node.op is None else None)
    moved: dict[Node, Node] = {}
    for node in nodes:
        taken = [
            Entry(variables[e]) if e in variables else Entry(moved[e.node], e.index) for e in node.inputs
        ]
        moved[node] = node.copy(taken)
    return variables, moved
