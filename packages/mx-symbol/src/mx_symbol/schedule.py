# SPDX-License-Identifier: Apache-2.0
"""From a bound graph to what the memory planner sees: values, steps, what is read and written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from mx_symbol.bound_graph import BoundGraph, bytes_of
from mx_symbol.graph import Entry, Node
from mx_symbol.ir import PREPARED
from mx_symbol.memory import MemoryPlan, PlacedPlan, Step, plan_memory


class Timeline(Protocol):
    """What an executor starts, in order."""

    @property
    def nodes(self) -> tuple[Node, ...]: ...

    @property
    def n_forward(self) -> int: ...

    @property
    def plan(self) -> MemoryPlan | PlacedPlan: ...


@dataclass(frozen=True)
class Schedule:
    """The nodes of one program and its memory plan.

    Attributes
    ----------
    nodes : in the order in which they run
    n_forward : nodes of the forward part
    steps : the nodes as the planner sees them
    values : number of every planned or external value
    sizes : bytes per value
    external : values that lie in arrays: outputs, gradients, what prepared nodes keep
    prepared : the entries that prepared nodes keep for the others
    plan : where the others lie
    """

    nodes: tuple[Node, ...]
    n_forward: int
    steps: tuple[Step, ...]
    values: dict[Entry, int]
    sizes: tuple[int, ...]
    external: frozenset[int]
    prepared: tuple[Entry, ...]
    plan: MemoryPlan

    def written_inplace(self, time: int, output: Entry) -> bool:
        """True when an output takes over the memory of an input of its step."""
        value = self.values.get(output, -1)
        place = self.plan.placements.get(value)
        step = self.steps[time]
        for i, o in step.inplace:
            other = self.plan.placements.get(step.reads[i])
            if other is None or other.death != time or step.writes[o] != value:
                continue
            if other.host == value if place is None else other.storage == place.storage:
                return True
        return False


def unread_inputs(node: Node) -> frozenset[int]:
    """Positions of inputs of which only shape and type matter."""
    if node.op is None:
        return frozenset()
    return node.op.shape_only_inputs.intersection(range(len(node.inputs)))


def prepared_entries(nodes: Sequence[Node]) -> tuple[Entry, ...]:
    """What nodes that run rarely compute for those that run always."""
    return tuple(
        dict.fromkeys(
            entry
            for node in nodes
            if PREPARED not in node.attrs
            for entry in node.inputs
            if PREPARED in entry.node.attrs
        )
    )


def make_schedule(graph: BoundGraph, with_backward: bool) -> Schedule:
    """Plans the forward graph alone or with its gradient graph."""
    nodes = graph.schedule if with_backward else graph.schedule[: graph.n_forward]
    prepared = prepared_entries(nodes)
    kept = {*graph.heads, *prepared}
    if with_backward:
        kept.update(graph.grads.values())
    read: set[Entry] = set()
    for node in nodes:
        unread = unread_inputs(node)
        read.update(entry for i, entry in enumerate(node.inputs) if i not in unread)
    values: dict[Entry, int] = {}
    sizes: list[int] = []
    for node in nodes:
        for i in range(node.num_outputs):
            entry = Entry(node, i)
            if entry in read or entry in kept:
                values[entry] = len(sizes)
                sizes.append(bytes_of(graph.specs[entry]))
    external = frozenset(values[entry] for entry in kept if entry in values)
    steps = tuple(_step(node, values) for node in nodes)
    written = {graph.grads[name] for name, request in graph.grad_req.items() if request == "write"}
    # Until backward runs, gradients are the caller's.
    hosts = {values[entry]: graph.n_forward for entry in written if with_backward and entry in values}
    names = {number: entry.name for entry, number in values.items()}
    n_forward = graph.n_forward if with_backward else None
    plan = replace(plan_memory(steps, sizes, external, hosts), names=names, n_forward=n_forward)
    n_forward = min(graph.n_forward, len(nodes))
    return Schedule(nodes, n_forward, steps, values, tuple(sizes), external, prepared, plan)


def _step(node: Node, values: dict[Entry, int]) -> Step:
    unread = unread_inputs(node)
    reads: list[int] = []
    positions: dict[int, int] = {}
    for i, entry in enumerate(node.inputs):
        if i not in unread and entry in values:
            positions[i] = len(reads)
            reads.append(values[entry])
    writes: list[int] = []
    outputs: dict[int, int] = {}
    for i in range(node.num_outputs):
        if Entry(node, i) in values:
            outputs[i] = len(writes)
            writes.append(values[Entry(node, i)])
    assert node.op is not None and node.params is not None
    pairs = node.op.inplace(node.params)
    inplace = tuple((positions[i], outputs[o]) for i, o in pairs if i in positions and o in outputs)
    return Step(tuple(reads), tuple(writes), inplace)
