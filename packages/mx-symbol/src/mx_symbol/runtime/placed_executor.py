# SPDX-License-Identifier: Apache-2.0
"""Executors of graphs on several devices: a native program per device, and copies between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from mx_core.context import Context
from mx_ndarray import NDArray, autograd
from mx_symbol.graph import Entry, Node
from mx_symbol.graph.show import debug_text
from mx_symbol.memory.plan import PlacedPlan
from mx_symbol.passes.bound_graph import BoundGraph, bytes_of
from mx_symbol.runtime.device_partitions import Action, DevicePartition, Move, Run, split, timeline
from mx_symbol.runtime.devices import Devices, is_copy
from mx_symbol.runtime.executor import Callback, Executor, Mode
from mx_symbol.runtime.monitor import Monitored
from mx_symbol.runtime.program import Arena, Calls, Compiler, Launch, prepared_arrays

if TYPE_CHECKING:
    from mx_symbol._core import Binding
    from mx_symbol.symbol import Symbol


#: starts a run or a copy with a priority
_Start = Callable[[int], object]


@dataclass(frozen=True)
class _Placed:
    """What runs in one mode: partitions, and the order of their runs and the copies."""

    partitions: tuple[DevicePartition, ...]
    phases: tuple[list[Action], list[Action]]
    plan: PlacedPlan

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes and copies in the order in which they are started."""
        return tuple(node for actions in self.phases for node in _nodes(actions))

    @property
    def n_forward(self) -> int:
        """How many of them forward starts."""
        return sum(1 for _ in _nodes(self.phases[0]))


def _nodes(actions: Iterable[Action]) -> Iterable[Node]:
    for action in actions:
        yield from (action.copy,) if isinstance(action, Move) else action.nodes


class _Launches:
    """The programs of several devices, with the interface of one: parts are lists of things to start."""

    def __init__(self, parts: Sequence[Sequence[_Start]]) -> None:
        self._parts = parts

    def push(self, part: int, priority: int = 0) -> None:
        """Starts a part."""
        with autograd.pause(autograd.is_training()):
            for start in self._parts[part]:
                start(priority)


class PlacedExecutor(Executor):
    """Runs each node on the device of its group (`mx_symbol.runtime.devices`), with the interface of `Executor`.

    A memory budget is one for each device, and a step of a partial forward is a node or a copy.
    """

    def __init__(
        self,
        symbol: Symbol,
        ctx: Context,
        graph: BoundGraph,
        arrays: tuple[dict[str, NDArray], dict[str, NDArray | None], dict[str, NDArray]],
        devices: Devices,
        arena: Arena | None = None,
        memory_budget: int | None = None,
    ) -> None:
        self._devices = devices
        self._placed: dict[Mode, _Placed] = {}
        self._calls_of: dict[Context, Calls] = {}
        super().__init__(symbol, ctx, graph, arrays, arena, memory_budget=memory_budget)
        self._table = dict(self._arrays)  # and what crosses

    def _context_of(self, entry: Entry) -> Context:
        return self._devices.of(entry.node)

    def _plan(self, mode: Mode) -> PlacedPlan:
        return self._timeline(mode).plan

    def _timeline(self, mode: Mode) -> _Placed:
        if mode.with_backward:
            mode = Mode(True, True)
        made = self._placed.get(mode)
        if made is None:
            made = self._placed[mode] = self._split(mode, False)
        return made

    def _split(self, mode: Mode, separate: bool) -> _Placed:
        partitions = split(self._graph, self._devices, *mode, self._memory_budget, separate)
        n = None if mode.with_backward else self._graph.n_forward
        copies = [(i, node) for i, node in enumerate(self._graph.schedule[:n]) if is_copy(node)]
        phases = timeline(
            [node for i, node in copies if i < self._graph.n_forward],
            [node for i, node in copies if i >= self._graph.n_forward],
            partitions,
        )
        return _Placed(
            partitions,
            phases,
            PlacedPlan({s.context: s.schedule.plan for s in partitions}, self._sizes(partitions)),
        )

    def _sizes(self, partitions: Sequence[DevicePartition]) -> dict[Context, int]:
        """Bytes of what crosses, by device."""
        sizes = {}
        for partition in partitions:
            leaving = {e for e in (*partition.outputs, *partition.grads) if e not in self._arrays}
            sizes[partition.context] = sum(
                bytes_of(self._graph.specs[e]) for e in (*map(Entry, partition.imports), *leaving)
            )
        return sizes

    def _compiled(self, mode: Mode, separate: bool = False) -> Launch:
        return self._launches(self._timeline(mode), mode, self._table, self._arena, separate)

    def _launches(
        self, placed: _Placed, mode: Mode, arrays: dict[Entry, NDArray], arena: Arena, separate: bool
    ) -> Launch:
        """Compiles the partitions and puts the runs in order.

        Parameters
        ----------
        arrays : by entries of the whole graph; those of values that cross are added
        """

        def array(entry: Entry) -> NDArray:
            if entry not in arrays:
                arrays[entry] = self._new(entry)
            return arrays[entry]

        phases = placed.phases
        if separate:
            phases = (_one_by_one(phases[0]), _one_by_one(phases[1]))
        ends: dict[Context, list[int]] = {partition.context: [] for partition in placed.partitions}
        for action in (*phases[0], *phases[1]):
            if isinstance(action, Run):
                ends[action.partition.context].append(action.end)
        bindings = {
            partition.context: self._bound(partition, mode, array, arena, ends[partition.context])
            for partition in placed.partitions
        }
        begun = dict.fromkeys(bindings, 0)

        def start(action: Action) -> _Start:
            if isinstance(action, Move):
                return partial(_copy, array(action.source), array(action.target))
            context = action.partition.context
            begun[context] += 1
            return partial(bindings[context].push, begun[context] - 1)

        parts = [[start(action) for action in actions] for actions in phases]
        return _Launches([[step] for part in parts for step in part] if separate else parts)

    def _bound(
        self,
        partition: DevicePartition,
        mode: Mode,
        array: Callable[[Entry], NDArray],
        arena: Arena,
        ends: Sequence[int],
    ) -> Binding:
        graph, context = partition.graph, partition.context
        table = {entry: kept for entry, kept in self._arrays.items() if entry.node.is_variable}
        table.update((Entry(variable), array(Entry(copy))) for copy, variable in partition.imports.items())
        handed_out = zip(
            (*graph.heads, *graph.grads.values()), (*partition.outputs, *partition.grads), strict=True
        )
        table.update((entry, array(whole)) for entry, whole in handed_out)
        table.update(prepared_arrays(graph, partition.schedule, context, ends))
        calls = self._calls_of.setdefault(context, Calls(context))
        compiled = Compiler(graph, partition.schedule, table, context).compile(calls, mode.is_train, ends)
        return compiled.bind(table, arena.at(context).reserve(compiled.arena_bytes))

    # ---- looking inside ----

    def set_monitor_callback(self, callback: Callback | None, monitor_all: bool = False) -> None:
        """As `Executor.set_monitor_callback`; copies between devices are reported too."""
        self._monitor = None
        if callback is None:
            return
        mode = Mode(bool(self._graph.grads), True)
        placed = self._split(mode, True)
        arrays = dict(self._arrays)

        def compiled(is_train: bool) -> Launch:
            return self._launches(
                placed, Mode(mode.with_backward, is_train), arrays, Arena(self._context), True
            )

        compiled(True)  # makes the arrays
        whole = {
            node: shown
            for partition in placed.partitions
            for node, shown in zip(partition.schedule.nodes, partition.nodes, strict=True)
        }
        nodes = tuple(whole.get(node, node) for node in placed.nodes)
        self._monitor = Monitored(nodes, placed.n_forward, arrays, compiled, callback, monitor_all)

    def debug_str(self) -> str:
        """The graph with its copies, which nodes run where in which order, and the memory plans."""
        placed = self._timeline(self._mode(None))
        lines = [
            f"Partition {i} on {run.partition.context}: {', '.join(node.name for node in run.nodes)}"
            for i, run in enumerate(a for phase in placed.phases for a in phase if isinstance(a, Run))
        ]
        return debug_text(self._graph.heads) + "\n".join(lines) + f"\n{placed.plan}\n"


def _copy(source: NDArray, target: NDArray, priority: int) -> None:
    source.copyto(target)


def _one_by_one(actions: Iterable[Action]) -> list[Action]:
    """The same with a run per node."""
    result: list[Action] = []
    for action in actions:
        if isinstance(action, Move):
            result.append(action)
        else:
            result += (Run(action.partition, at, at + 1) for at in range(action.begin, action.end))
    return result
