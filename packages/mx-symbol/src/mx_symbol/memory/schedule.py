# SPDX-License-Identifier: Apache-2.0
"""From a bound graph to what the memory planner sees: values, steps, what is read and written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from mx_core.graph import PREPARED
from mx_symbol._core import FlatGraph, FlatSchedule
from mx_symbol.graph import Entry, Node
from mx_symbol.graph.planning import Planning
from mx_symbol.memory.branches import Branch, make_branches, may_pay, pays
from mx_symbol.memory.cost import microseconds
from mx_symbol.memory.order import ORDER_LIMIT, Order, masks_of, reuse_edges, users_of
from mx_symbol.memory.placement import DataFlow, plan_memory
from mx_symbol.memory.plan import MemoryPlan, PlacedPlan, Step
from mx_symbol.passes.bound_graph import BoundGraph, bytes_of


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
    flat : the same in numbers
    n_forward : nodes of the forward part
    steps : the nodes as the planner sees them
    microseconds : about what each node takes
    values : number of every planned or external value
    sizes : bytes per value
    external : values that lie in arrays: outputs, gradients, what prepared nodes keep
    prepared : the entries that prepared nodes keep for the others
    plan : where the others lie
    branches : what runs side by side; empty if the nodes run one after the other
    """

    nodes: tuple[Node, ...]
    flat: FlatSchedule
    n_forward: int
    steps: tuple[Step, ...]
    microseconds: tuple[float, ...]
    values: dict[Entry, int]
    sizes: tuple[int, ...]
    external: frozenset[int]
    prepared: tuple[Entry, ...]
    plan: MemoryPlan
    branches: tuple[Branch, ...] = ()


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
    flat_graph = FlatGraph(list(nodes))
    flat = FlatSchedule(flat_graph, graph.specs, kept, _state_order(flat_graph))
    values, steps = flat.values, flat.steps
    specs = [graph.specs[entry] for entry in values]
    n_bytes = {key: bytes_of(spec) for key, spec in {id(spec): spec for spec in specs}.items()}
    sizes = [n_bytes[id(spec)] for spec in specs]
    external = frozenset(values[entry] for entry in kept if entry in values)
    alone = graph.grad_req.keys() - graph.shared_grads
    written = {graph.grads[name] for name in alone if graph.grad_req[name] == "write"}
    # Until backward runs, gradients are the caller's.
    hosts = {values[entry]: graph.n_forward for entry in written if with_backward and entry in values}
    n_forward = graph.n_forward if with_backward else None
    each = [microseconds(nodes[first], graph.specs) for first in flat.firsts]
    estimates = tuple([each[signature] for signature in flat.signatures])
    takes = [0.0 if PREPARED in node.attrs else time for node, time in zip(nodes, estimates, strict=True)]
    planning = graph.planning
    order = Order(steps, n_forward) if _needs_order(planning, takes, steps, n_forward) else None
    flow = None
    if order is not None and planning.memory_mode == "most_parallel":
        flow = DataFlow(order.before, masks_of(users_of(steps, len(sizes))))
    plan = replace(plan_memory(steps, sizes, external, hosts, flow), names=flat.names, n_forward=n_forward)
    branches: tuple[Branch, ...] = ()
    if order is not None and planning.branches != "never" and planning.cores > 1:
        edges = reuse_edges(steps, plan, order)
        n_prepared = sum(PREPARED in node.attrs for node in nodes)
        branches = make_branches(order, takes, n_prepared, planning.cores)
        if planning.branches == "auto" and not pays(branches, takes, planning.cores):
            branches = ()
        else:
            plan = replace(plan, edges=edges)
    n_forward = min(graph.n_forward, len(nodes))
    return Schedule(
        nodes, flat, n_forward, steps, estimates, values, tuple(sizes), external, prepared, plan, branches
    )


def _needs_order(
    planning: Planning, microseconds: Sequence[float], steps: Sequence[Step], n_forward: int | None
) -> bool:
    if len(microseconds) > ORDER_LIMIT:
        return False
    if planning.memory_mode == "most_parallel":
        return True
    side_by_side = planning.branches != "never" and planning.cores > 1
    if not side_by_side or planning.branches == "always":
        return side_by_side
    return may_pay(microseconds, planning.cores, steps, n_forward)


def _state_order(graph: FlatGraph) -> list[tuple[int, ...]]:
    """Per node the earlier ones that write a state it reads, or touch one that it writes."""
    changing = graph.select(lambda facts: bool(facts.mutated))
    states = {node.inputs[i].node for node in changing for i in node.facts.mutated}
    if not states:
        return [()] * len(graph.nodes)
    result: list[tuple[int, ...]] = []
    writers: dict[Node, int] = {}
    readers: dict[Node, list[int]] = {}
    for time, node in enumerate(graph.nodes):
        after: list[int] = []
        for i, entry in enumerate(node.inputs):
            state = entry.node
            if state not in states:
                continue
            if state in writers:
                after.append(writers[state])
            if i in node.mutated:
                after += readers.pop(state, ())
                writers[state] = time
            else:
                readers.setdefault(state, []).append(time)
        result.append(tuple(sorted({t for t in after if t != time})))
    return result
