# SPDX-License-Identifier: Apache-2.0
"""A graph on several devices as one graph per device, and the order in which these and the copies between them run.

A device partition is a bound graph of its own: what it reads from elsewhere is a variable, what others read of it is an
output. So passes, memory plans and recomputation treat it like any other graph. What crosses a border lies in an array
of its own on either side: a device need not keep its arena still until another one has copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from mx_core.context import Context
from mx_core.errors import MXNetError
from mx_core.graph import PREPARED
from mx_symbol.graph import Entry, Node
from mx_symbol.memory.recompute import within_budget
from mx_symbol.memory.schedule import Schedule, make_schedule
from mx_symbol.passes.bound_graph import BoundGraph, optimized
from mx_symbol.runtime.devices import GROUP, Devices, is_copy


@dataclass(frozen=True)
class DevicePartition:
    """What one device computes.

    Attributes
    ----------
    context : the device
    graph : its part of the whole graph, after passes
    schedule : with the memory plan of its arena
    imports : per copy to this device the variable that stands for it here
    outputs, grads : what entries of the whole graph the graph's outputs and gradients are
    nodes : those of the whole graph that it stands for
    """

    context: Context
    graph: BoundGraph
    schedule: Schedule
    imports: dict[Node, Node]
    outputs: tuple[Entry, ...]
    grads: tuple[Entry, ...]
    nodes: tuple[Node, ...]

    def made(self) -> dict[Node, list[Entry]]:
        """Per node the entries of the whole graph that it computes."""
        table: dict[Node, list[Entry]] = {}
        here = (*self.graph.heads, *self.graph.grads.values())
        for entry, whole in zip(here, (*self.outputs, *self.grads), strict=True):
            table.setdefault(entry.node, []).append(whole)
        return table


@dataclass(frozen=True)
class Move:
    """The contents of one entry's array go into another's."""

    source: Entry
    target: Entry
    copy: Node


@dataclass(frozen=True)
class Run:
    """Consecutive nodes of a partition."""

    partition: DevicePartition
    begin: int
    end: int

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes."""
        return self.partition.schedule.nodes[self.begin : self.end]


Action = Move | Run


def split(
    graph: BoundGraph,
    devices: Devices,
    with_backward: bool,
    is_train: bool,
    memory_budget: int | None = None,
    separate: bool = False,
) -> tuple[DevicePartition, ...]:
    """The partitions of a graph in which copies stand at the borders.

    Parameters
    ----------
    memory_budget : bytes for the intermediate values of each device
    separate : as it is, without passes, and every value an output, to look at it
    """
    nodes = graph.schedule if with_backward else graph.schedule[: graph.n_forward]
    graph = replace(graph, schedule=nodes, grads=graph.grads if with_backward else {})
    levels = _levels(nodes)
    return tuple(
        _Splitter(graph, devices, context, levels, separate).partition(
            with_backward, is_train, memory_budget, separate
        )
        for context in devices.all(graph)
    )


def _levels(nodes: Sequence[Node]) -> dict[Node, int]:
    """A level ends where a value leaves, so that its reader need not wait for what follows here; what passes join
    within a level no path leaves and comes back to."""
    leaving = {node.inputs[0].node for node in nodes if is_copy(node)}
    levels: dict[Node, int] = {}
    for node in nodes:
        below = (e.node for e in node.inputs if e.node in levels)
        levels[node] = max((levels[other] + (other in leaving) for other in below), default=0)
    return levels


class _Splitter:
    """Takes from a graph what is on one device."""

    def __init__(
        self, graph: BoundGraph, devices: Devices, context: Context, levels: dict[Node, int], everything: bool
    ) -> None:
        self._graph, self._context, self._everything = graph, context, everything
        self._specs = dict(graph.specs)
        self._imports: dict[Node, Node] = {}
        self._arrivals: dict[Entry, Entry] = {}
        self._moved: dict[Node, Node] = {}
        self._phases: tuple[list[Node], list[Node]] = ([], [])
        self._old: tuple[list[Node], list[Node]] = ([], [])
        here = [(time, node) for time, node in enumerate(graph.schedule) if devices.of(node) == context]
        # Level by level: what passes join runs as late as its last part, but not after the next level.
        here.sort(key=lambda item: (item[0] >= graph.n_forward, levels[item[1]]))
        for time, node in here:
            if is_copy(node):
                variable = self._imports[node] = Node(None, None, node.name)
                self._specs[Entry(variable)] = graph.specs[Entry(node)]
                computed = node.inputs[0].node.op is not None and not everything
                self._moved[node] = self._arriving(node, variable) if computed else variable
                continue
            phase = time >= graph.n_forward
            self._phases[phase].append(self._here(node, levels[node]))
            self._old[phase].append(node)
        self._devices = devices

    def _arriving(self, copy: Node, variable: Node) -> Node:
        """What passes see of a computed import: a computed value, for which they prepare nothing."""
        made = copy.copy([Entry(variable)])
        self._specs[Entry(made)] = self._specs[Entry(variable)]
        self._arrivals[Entry(made)] = Entry(variable)
        return made

    def _here(self, node: Node, level: int) -> Node:
        made = self._moved[node] = node.copy(map(self._now, node.inputs))
        made.attrs[GROUP] = f"{level}"  # nodes of several groups are not joined
        if not all(e.node.is_variable or PREPARED in e.node.attrs for e in made.inputs):
            made.attrs.pop(PREPARED, None)
        for i in range(node.num_outputs):
            self._specs[Entry(made, i)] = self._specs[Entry(node, i)]
        return made

    def _now(self, entry: Entry) -> Entry:
        return Entry(self._moved.get(entry.node, entry.node), entry.index)

    def _exports(self, phase: int, known: Iterable[Entry]) -> Iterator[Entry]:
        """What others read, beyond what is known to be handed out."""
        own = set(self._old[phase])
        if self._everything:
            found = [Entry(node, i) for node in self._old[phase] for i in range(node.num_outputs)]
        else:
            found = [node.inputs[0] for node in self._graph.schedule if is_copy(node)]
        return (e for e in dict.fromkeys(found) if e.node in own and e not in set(known))

    def partition(
        self, with_backward: bool, is_train: bool, budget: int | None, separate: bool
    ) -> DevicePartition:
        graph = self._graph
        place = [self._devices.of(head.node) == self._context for head in graph.heads]
        outputs = [head for head, here in zip(graph.heads, place, strict=True) if here]
        head_grads = tuple(
            n for n, here in zip(graph.head_grads, place, strict=False) if here
        ) if with_backward else ()  # fmt: skip
        more = list(self._exports(0, outputs))
        outputs += more
        grads = {n: e for n, e in graph.grads.items() if self._devices.of(e.node) == self._context}
        requests = {name: graph.grad_req[name] for name in grads}
        for entry in self._exports(1, grads.values()):
            name = f"{entry.name} for others"
            grads[name], requests[name] = entry, "write"
        made = replace(
            graph, heads=tuple(map(self._now, outputs)), schedule=(*self._phases[0], *self._phases[1]),
            n_forward=len(self._phases[0]), head_grads=(*head_grads, *(None for _ in more)),
            grads={name: self._now(entry) for name, entry in grads.items()}, grad_req=requests, specs=self._specs,
        )  # fmt: skip
        backward = with_backward and bool(grads)
        if not separate:
            made = optimized(made, backward, is_train, self._context, arrivals=self._arrivals)
            if backward:
                made = within_budget(made, budget)
        schedule = make_schedule(made, backward)
        return DevicePartition(
            self._context, made, schedule, self._imports, tuple(outputs), tuple(grads.values()),
            (*self._old[0], *self._old[1]),
        )  # fmt: skip


def timeline(
    forward: Sequence[Node], backward: Sequence[Node], partitions: Sequence[DevicePartition]
) -> tuple[list[Action], list[Action]]:
    """What to start in which order, forward and backward.

    Each device takes its nodes in order. A run ends where a value is not there yet, and where one leaves, so that its
    copy begins while the device goes on.

    Parameters
    ----------
    forward, backward : the copies between the partitions
    """
    run = _Timeline(partitions)
    first = run.phase(forward, [partition.schedule.n_forward for partition in partitions])
    return first, run.phase(backward, [len(partition.schedule.nodes) for partition in partitions])


class _Timeline:
    def __init__(self, partitions: Sequence[DevicePartition]) -> None:
        self._partitions = partitions
        self._made = [partition.made() for partition in partitions]
        self._variables = [{v: copy for copy, v in partition.imports.items()} for partition in partitions]
        self._at = [0] * len(partitions)
        self._there: set[Entry | Node] = set()

    def phase(self, copies: Sequence[Node], ends: Sequence[int]) -> list[Action]:
        actions: list[Action] = []
        sources = {copy.inputs[0] for copy in copies}
        waiting = list(copies)
        before = -1
        while before < len(actions):
            before = len(actions)
            late = [copy for copy in waiting if not self._is_there(copy.inputs[0])]
            for copy in (copy for copy in waiting if copy not in set(late)):
                actions.append(Move(copy.inputs[0], Entry(copy), copy))
                self._there.add(copy)
            waiting = late
            for number in range(len(self._partitions)):
                actions += self._run(number, ends[number], sources)
        if waiting or self._at != list(ends):
            names = [copy.name for copy in waiting]
            raise MXNetError(f"[bind] devices wait for each other: copies {names} are never made")
        return actions

    def _is_there(self, entry: Entry) -> bool:
        return entry.node.op is None or entry in self._there

    def _run(self, number: int, end: int, sources: set[Entry]) -> Iterator[Action]:
        partition, begin = self._partitions[number], self._at[number]
        variables, made = self._variables[number], self._made[number]
        back: list[Node] = []
        at, leaves = begin, False
        while at < end and not leaves:
            node = partition.schedule.nodes[at]
            read = [variables[e.node] for e in node.inputs if e.node in variables]
            if any(copy not in self._there for copy in read):
                break
            back += [variables[node.inputs[i].node] for i in node.mutated if node.inputs[i].node in variables]
            at += 1
            self._there.update(made.get(node, ()))
            leaves = any(entry in sources for entry in made.get(node, ()))
        self._at[number] = at
        if at > begin:
            yield Run(partition, begin, at)
        for copy in back:  # a state that lies elsewhere
            yield Move(Entry(copy), copy.inputs[0], copy)
