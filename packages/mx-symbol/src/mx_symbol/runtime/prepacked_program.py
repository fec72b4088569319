# SPDX-License-Identifier: Apache-2.0
"""Splits a graph into what is prepared and what runs every time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from mx_core.context import Context
from mx_core.graph import PREPARED
from mx_ndarray import NDArray
from mx_symbol.graph import Entry, Node, topological_order
from mx_symbol.memory.consecutive import behind
from mx_symbol.memory.plan import MemoryPlan
from mx_symbol.memory.schedule import make_schedule
from mx_symbol.passes.bound_graph import BoundGraph, bytes_of
from mx_symbol.runtime.joint_arrays import arrays_together
from mx_symbol.runtime.prepacking import Prepack
from mx_symbol.runtime.program import Arena, Calls, Compiler, Launch


class PrepackedProgram:
    """A program after the prepacks that it reads.

    Threads: one compiles it; then any may run it.

    Attributes
    ----------
    program : what runs every time
    prepacks : what runs before a forward part where something was written
    """

    def __init__(self, program: Launch, prepacks: tuple[Prepack, ...]) -> None:
        self.program = program
        self.prepacks = prepacks

    def push(self, part: int, priority: int = 0) -> None:
        """Starts a part; asynchronous."""
        if part == 0:
            for prepack in self.prepacks:
                prepack.push()
        self.program.push(part, priority)


def split(graph: BoundGraph) -> tuple[tuple[Node, ...], BoundGraph]:
    """The prepared nodes in front of a graph, and the graph that reads what they keep like variables."""
    front = tuple(node for node in graph.schedule[: graph.n_forward] if PREPARED in node.attrs)
    apart = set(front)
    schedule = tuple(node for node in graph.schedule if node not in apart)
    return front, replace(graph, schedule=schedule, n_forward=graph.n_forward - len(front))


class Where(NamedTuple):
    """What prepacks are compiled for."""

    arena: Arena
    calls: Calls
    context: Context
    is_train: bool


def provide(
    rest: BoundGraph, front: tuple[Node, ...], variables: Mapping[Entry, NDArray], where: Where
) -> tuple[dict[Entry, NDArray], tuple[Prepack, ...]]:
    """Arrays of what a graph reads of prepared nodes, and the prepacks that fill them.

    What sharers of the arena keep already is taken from them; one prepack is made for all else.
    """
    kept = _kept(rest, front)
    known = where.arena.prepacks
    numbers = known.numbered(front, variables, where.is_train)
    found = {entry: known.find(numbers[entry]) for entry in kept}
    missing = {numbers[entry]: entry for entry, prepack in found.items() if prepack is None}
    if missing:
        made = _made(rest, front, missing, variables, where)
        known.add(made)
        found = {entry: prepack or made for entry, prepack in found.items()}
    used = {id(p): p for p in found.values() if p is not None}
    arrays = {entry: p.arrays[numbers[entry]] for entry, p in found.items() if p is not None}
    return arrays, tuple(used.values())


def plan_in_parts(front: tuple[Node, ...], rest: BoundGraph, with_backward: bool) -> MemoryPlan:
    """The memory of prepared nodes and of a graph after them, as they run: one after the other."""
    running = make_schedule(rest, with_backward).plan
    kept = _kept(rest, front)
    prepared = make_schedule(_computing(rest, front, kept), False)
    n_bytes = sum(bytes_of(rest.specs[entry]) for entry in kept)
    return behind(prepared.plan, len(prepared.nodes), n_bytes, running)


def _kept(rest: BoundGraph, front: tuple[Node, ...]) -> tuple[Entry, ...]:
    """What a graph reads of the prepared nodes in front of it."""
    apart = set(front)
    return tuple(dict.fromkeys(e for node in rest.schedule for e in node.inputs if e.node in apart))


def _computing(rest: BoundGraph, front: tuple[Node, ...], heads: tuple[Entry, ...]) -> BoundGraph:
    """The prepared nodes that compute some values, as a graph."""
    needed = set(topological_order(entry.node for entry in heads))
    nodes = tuple(node for node in front if node in needed)
    return replace(
        rest, heads=heads, schedule=nodes, n_forward=len(nodes), head_grads=(), grads={}, grad_req={}
    )


def _made(
    rest: BoundGraph,
    front: tuple[Node, ...],
    wanted: Mapping[int, Entry],
    variables: Mapping[Entry, NDArray],
    where: Where,
) -> Prepack:
    graph = _computing(rest, front, tuple(wanted.values()))
    schedule = make_schedule(graph, False)
    kept = arrays_together({entry: graph.specs[entry] for entry in graph.heads}, where.context)
    arrays = {**variables, **kept}
    compiled = Compiler(graph, schedule, arrays, where.context).compile(where.calls, where.is_train)
    binding = compiled.bind(arrays, where.arena.reserve(compiled.arena_bytes))
    reads = [variables[e] for node in graph.schedule for e in node.inputs if e.node.is_variable]
    return Prepack(binding, {number: arrays[entry] for number, entry in wanted.items()}, reads)
