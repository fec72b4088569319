# SPDX-License-Identifier: Apache-2.0
"""Executor: a graph bound to arrays, run forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mx_core import dtypes
from mx_core.context import Context
from mx_core.errors import ArgumentError, IndexOutOfBoundsError, MXNetError, ShapeError
from mx_ndarray import NDArray, nd
from mx_symbol.graph import Entry, Node
from mx_symbol.graph.collector import collector_paused
from mx_symbol.memory.branches import Branch
from mx_symbol.memory.plan import MemoryPlan, PlacedPlan
from mx_symbol.memory.recompute import within_budget
from mx_symbol.memory.schedule import Schedule, Timeline, make_schedule
from mx_symbol.passes.bound_graph import BoundGraph, optimized
from mx_symbol.runtime.arguments import shared_gradients
from mx_symbol.runtime.monitor import Monitored
from mx_symbol.runtime.prepacked_program import PrepackedProgram, Where, plan_in_parts, provide, split
from mx_symbol.runtime.program import Arena, Calls, Compiler, Launch, prepared_arrays

if TYPE_CHECKING:
    from mx_symbol.symbol import Symbol

Callback = Callable[[str, NDArray], None]
OutGrads = NDArray | Sequence[NDArray | None] | Mapping[str, NDArray] | None


class Mode(NamedTuple):
    """Which of the programs: with the gradient graph or without, training or inference."""

    with_backward: bool
    is_train: bool


@dataclass
class _Compiled:
    """What is made of a graph for one mode, each part when it is first needed.

    Attributes
    ----------
    graph : after the passes
    schedule : its nodes in order, and their memory
    program : what `forward` and `backward` start
    separate : the same with a part per node
    """

    graph: BoundGraph | None = None
    schedule: Schedule | None = None
    program: Launch | None = None
    separate: Launch | None = None


class Executor:
    """Made by `Symbol.bind` and `Symbol.simple_bind`.

    `forward` and `backward` are asynchronous: they push work and return; reading an output waits.

    Threads: one at a time.

    Attributes
    ----------
    arg_arrays, grad_arrays, aux_arrays : arrays in the order of `list_arguments` (gradients: None
        where there is none) and `list_auxiliary_states`
    arg_dict, grad_dict, aux_dict, output_dict : the same by name
    outputs : arrays that every forward overwrites
    """

    def __init__(
        self,
        symbol: Symbol,
        ctx: Context,
        graph: BoundGraph,
        arrays: tuple[dict[str, NDArray], dict[str, NDArray | None], dict[str, NDArray]],
        arena: Arena | None = None,
        outputs: Sequence[NDArray] | None = None,
        memory_budget: int | None = None,
    ) -> None:
        shared = shared_gradients(arrays) if graph.grads else frozenset()
        if shared:
            graph = replace(graph, shared_grads=shared)
        self._symbol = symbol
        self._groups: Mapping[str, Context] = {}  # of devices; kept for `reshape`
        self._context = ctx
        self._graph = graph
        self._memory_budget = memory_budget  # of the graph; kept for `reshape`
        self._args, self._grads, self._aux = arrays
        self.arg_dict, self.grad_dict, self.aux_dict = dict(arrays[0]), dict(arrays[1]), dict(arrays[2])
        self._arena = Arena(ctx) if arena is None else arena
        self._calls = Calls(ctx)
        self._modes: dict[Mode, _Compiled] = {}
        self._last: Mode | None = None
        self._by_steps = False  # whether what backward reads was computed by steps
        self._monitor: Monitored | None = None
        self._arrays = self._external_arrays(outputs)
        self.outputs = [self._arrays[entry] for entry in graph.heads if entry in self._arrays]
        if graph.grads and memory_budget is not None:
            self._timeline(Mode(True, True))  # says now when it does not fit

    # ---- arrays ----

    @property
    def arg_arrays(self) -> list[NDArray]:
        """Arrays of the arguments."""
        return list(self._args.values())

    @property
    def grad_arrays(self) -> list[NDArray | None]:
        """Gradients of the arguments; None where there is none."""
        return list(self._grads.values())

    @property
    def aux_arrays(self) -> list[NDArray]:
        """Arrays of the auxiliary states."""
        return list(self._aux.values())

    @property
    def output_dict(self) -> dict[str, NDArray]:
        """Outputs by name."""
        return dict(zip(self._symbol.list_outputs(), self.outputs, strict=True))

    def _external_arrays(self, outputs: Sequence[NDArray] | None) -> dict[Entry, NDArray]:
        graph, arrays = self._graph, {}
        for name, node in graph.arguments.items():
            arrays[Entry(node)] = self._args[name]
        for name, node in graph.auxiliaries.items():
            arrays[Entry(node)] = self._aux[name]
        for i, head in enumerate(graph.heads):
            if head not in arrays:
                arrays[head] = self._new(head) if outputs is None else outputs[i]
        for variable in graph.head_grads:
            if variable is not None:
                arrays[Entry(variable)] = self._new(Entry(variable))
        for name, entry in graph.grads.items():
            grad = self._grads[name]
            assert grad is not None
            arrays[entry] = grad
        return arrays

    def _new(self, entry: Entry) -> NDArray:
        spec = self._graph.specs[entry]
        return nd.empty(spec.shape, self._context_of(entry), dtypes.name(spec.dtype))

    def _context_of(self, entry: Entry) -> Context:
        return self._context

    # ---- running ----

    def forward(self, is_train: bool = False, **kwargs: Any) -> list[NDArray]:
        """Computes the outputs; asynchronous.

        Parameters
        ----------
        is_train : bool
            Operators behave as in training, and what `backward` needs is kept.
        **kwargs : NDArray or array-like
            Values copied into arguments before.

        Returns
        -------
        list of NDArray
            `outputs`; a failure surfaces when one is read.

        Raises
        ------
        TypeError  a keyword is no argument
        ShapeError  a value has another shape than the argument
        """
        for name, value in kwargs.items():
            self._assign(name, value)
        self._last = Mode(bool(is_train) and bool(self._graph.grads), bool(is_train))
        self._by_steps = False
        if self._monitor is not None:
            self._monitor.forward(bool(is_train))
        else:
            self._program(self._last).push(0)
        return self.outputs

    def partial_forward(self, is_train: bool = False, step: int = 0) -> int:
        """Runs one node of the forward part; asynchronous. Steps must come in order, from 0.

        Returns
        -------
        int
            How many steps are left. After the last one `backward` may follow, which then runs node by node.

        Raises
        ------
        IndexOutOfBoundsError  there is no such step
        """
        mode = Mode(bool(is_train) and bool(self._graph.grads), bool(is_train))
        n = self._timeline(mode).n_forward
        if not 0 <= step < n:
            raise IndexOutOfBoundsError(f"[partial_forward] step: expected 0 to {n - 1}, got {step}")
        self._separate(mode).push(step)
        self._last, self._by_steps = mode, mode.with_backward
        return n - step - 1

    def backward(self, out_grads: OutGrads = None, is_train: bool = True) -> None:
        """Computes the gradients, as each argument's `grad_req` says; asynchronous.

        Parameters
        ----------
        out_grads : optional
            Gradient of each output, in order or by name; losses need none.
        is_train : bool
            Accepted for compatibility: backward follows the mode of the last forward.

        Raises
        ------
        MXNetError  an output that is no loss has no gradient
        """
        if not self._graph.grads:
            return
        self._take_out_grads(out_grads)
        last = Mode(True, is_train) if self._last is None else self._last
        if self._by_steps:
            self._backward_by_steps(last)
            return
        if self._monitor is not None:
            self._monitor.backward()
            return
        program = self._program(Mode(True, last.is_train))
        if not last.with_backward:
            program.push(0)  # an inference program keeps nothing for backward
            self._last = Mode(True, last.is_train)
        program.push(1)

    def _backward_by_steps(self, mode: Mode) -> None:
        """Only the program that ran forward has the values that its gradients are computed from."""
        program, timeline = self._separate(mode), self._timeline(mode)
        for step in range(timeline.n_forward, len(timeline.nodes)):
            program.push(step)

    def _assign(self, name: str, value: Any) -> None:
        target = self._args.get(name)
        if target is None:
            raise TypeError(f"Unknown argument {name}")
        shape = tuple(value.shape) if hasattr(value, "shape") else np.shape(value)
        if shape != target.shape:
            raise ShapeError(f"Shape not match! Argument {name}, need: {target.shape}, received: {shape}")
        target[...] = value

    def _given_out_grads(self, out_grads: OutGrads) -> list[NDArray | None]:
        """One per output, None for a loss; empty if none was given."""
        given: list[Any] = []
        if isinstance(out_grads, NDArray):
            given = [out_grads]
        elif isinstance(out_grads, Mapping):
            given = [out_grads.get(name) for name in self._symbol.list_outputs()]
        elif out_grads is not None:
            given = list(out_grads)
        n = len(self._graph.heads)
        if given and len(given) != n:
            raise ArgumentError(f"[backward] out_grads: expected {n} arrays, got {len(given)}")
        for i, variable in enumerate(self._graph.head_grads):
            if given and given[i] is not None and not isinstance(given[i], NDArray):
                raise TypeError(
                    f"[backward] out_grads[{i}]: expected an NDArray, got {type(given[i]).__name__}"
                )
            if variable is not None and (not given or given[i] is None):
                raise MXNetError(
                    f"[backward] output {self._graph.heads[i].name!r} is not a loss, so backward "
                    "needs its gradient: give out_grads, or end the graph in a loss such as MakeLoss"
                )
        return given

    def _take_out_grads(self, out_grads: OutGrads) -> None:
        given = self._given_out_grads(out_grads)
        for i, variable in enumerate(self._graph.head_grads):
            if variable is None:
                continue
            grad, target = given[i], self._arrays[Entry(variable)]
            assert grad is not None
            if grad.shape != target.shape:
                raise ShapeError(
                    f"[backward] out_grads[{i}]: expected shape {target.shape}, got {grad.shape}"
                )
            grad.copyto(target)

    def _of(self, mode: Mode) -> _Compiled:
        return self._modes.setdefault(mode, _Compiled())

    def _optimized(self, mode: Mode) -> BoundGraph:
        """The graph that is run in a mode."""
        compiled = self._of(_graph_mode(mode))
        if compiled.graph is None:
            made = optimized(
                self._graph, mode.with_backward, mode.is_train or mode.with_backward, self._context
            )
            compiled.graph = within_budget(made, self._memory_budget) if mode.with_backward else made
        return compiled.graph

    def _schedule(self, mode: Mode) -> Schedule:
        compiled = self._of(_graph_mode(mode))
        if compiled.schedule is None:
            compiled.schedule = make_schedule(self._optimized(mode), mode.with_backward)
        return compiled.schedule

    def _arrays_of(self, graph: BoundGraph) -> dict[Entry, NDArray]:
        """The arrays by the entries of an optimised graph."""
        arrays = {Entry(n): self._args[name] for name, n in graph.arguments.items()}
        arrays.update((Entry(n), self._aux[name]) for name, n in graph.auxiliaries.items())
        arrays.update(zip(graph.heads, self.outputs, strict=True))
        arrays.update((Entry(n), self._arrays[Entry(n)]) for n in graph.head_grads if n is not None)
        arrays.update((entry, self._arrays[self._graph.grads[name]]) for name, entry in graph.grads.items())
        return arrays

    def _timeline(self, mode: Mode) -> Timeline:
        return self._schedule(mode)

    def _program(self, mode: Mode) -> Launch:
        compiled = self._modes.get(mode)
        if compiled is not None and compiled.program is not None:
            return compiled.program
        made = self._of(mode).program = self._compiled(mode)
        return made

    def _separate(self, mode: Mode) -> Launch:
        compiled = self._of(mode)
        if compiled.separate is None:
            compiled.separate = self._compiled(mode, separate=True)
        return compiled.separate

    @collector_paused()
    def _compiled(self, mode: Mode, separate: bool = False) -> Launch:
        graph = self._optimized(mode)
        front, rest = split(graph)
        if front and not separate:
            return self._behind_prepacks(mode, front, rest)
        schedule = self._schedule(mode)
        ends = range(1, len(schedule.nodes) + 1) if separate else None
        arrays = self._arrays_of(graph) | prepared_arrays(graph, schedule, self._context, ends)
        compiled = Compiler(graph, schedule, arrays, self._context).compile(self._calls, mode.is_train, ends)
        return compiled.bind(arrays, self._arena.reserve(compiled.arena_bytes))

    def _behind_prepacks(self, mode: Mode, front: tuple[Node, ...], rest: BoundGraph) -> Launch:
        """The program without prepared nodes; it reads what executors that share memory have prepared together."""
        arrays = self._arrays_of(rest)
        sources = {**rest.arguments, **rest.auxiliaries}.values()
        variables = {Entry(node): arrays[Entry(node)] for node in sources}
        where = Where(self._arena, self._calls, self._context, mode.is_train)
        kept, prepacks = provide(rest, front, variables, where)
        arrays |= kept
        schedule = make_schedule(rest, mode.with_backward)
        compiled = Compiler(rest, schedule, arrays, self._context).compile(self._calls, mode.is_train)
        binding = compiled.bind(arrays, self._arena.reserve(compiled.arena_bytes))
        return PrepackedProgram(binding, prepacks)

    # ---- parameters, shapes ----

    def copy_params_from(
        self,
        arg_params: Mapping[str, NDArray],
        aux_params: Mapping[str, NDArray] | None = None,
        allow_extra_params: bool = False,
    ) -> None:
        """Copies values into arguments and auxiliary states by name; asynchronous.

        Raises
        ------
        ArgumentError  a name is unknown and `allow_extra_params` is not set
        """
        for table, values, what in (
            (self._args, arg_params, "arguments"),
            (self._aux, aux_params or {}, "auxiliary states"),
        ):
            for name, value in values.items():
                if name in table:
                    _copy_checked(name, value, table[name])
                elif not allow_extra_params:
                    raise ArgumentError(f"Find name {name!r} that is not in the {what}")

    def reshape(
        self, partial_shaping: bool = False, allow_up_sizing: bool = False, **kwargs: Sequence[int]
    ) -> Executor:
        """An executor for other shapes that shares arrays and memory with this one.

        Its outputs are written over those of this one, where they fit.

        Parameters
        ----------
        partial_shaping : bool
            Allow shapes to change that are not named.
        allow_up_sizing : bool
            Allow arrays to grow, which gives them new memory.
        """
        from mx_symbol.runtime.reshape import rebind

        return rebind(self, partial_shaping, allow_up_sizing, kwargs)

    # ---- looking inside ----

    def set_monitor_callback(self, callback: Callback | None, monitor_all: bool = False) -> None:
        """Calls `callback(name, array)` for the outputs of every node, forward and backward, and with
        `monitor_all` for inputs too. Runs node by node with memory of their own: for debugging."""
        self._monitor = None
        if callback is None:
            return
        graph = self._graph
        schedule = make_schedule(graph, bool(graph.grads))
        arrays = dict(self._arrays)
        arrays.update((entry, self._new(entry)) for entry in schedule.values if entry not in arrays)

        def compiled(is_train: bool) -> Launch:
            compiler = Compiler(graph, schedule, arrays, self._context)
            ends = range(1, len(schedule.nodes) + 1)
            return compiler.compile(self._calls, is_train, ends).bind(arrays, None)

        self._monitor = Monitored(schedule.nodes, schedule.n_forward, arrays, compiled, callback, monitor_all)

    def memory_plan(self, is_train: bool | None = None) -> MemoryPlan | PlacedPlan:
        """Where each value lies in the arena, and when. `str` lists it, `to_svg` draws it. On several devices
        there is a plan for each. Steps are places in `nodes`; prepared ones come first.

        Parameters
        ----------
        is_train : bool, optional
            The training plan (forward and backward) or the inference plan; by default training
            where there are gradients.
        """
        return self._plan(self._mode(is_train))

    def _plan(self, mode: Mode) -> MemoryPlan | PlacedPlan:
        front, rest = split(self._optimized(mode))
        return plan_in_parts(front, rest, mode.with_backward) if front else self._schedule(mode).plan

    def nodes(self, is_train: bool | None = None) -> tuple[Node, ...]:
        """What runs, in order, after all passes; which program as in `memory_plan`."""
        return self._timeline(self._mode(is_train)).nodes

    def branches(self, is_train: bool | None = None) -> tuple[Branch, ...]:
        """What runs side by side, each branch after those it names; empty if the nodes run one after the other.

        Steps are places in `nodes`; which program as in `memory_plan`.
        """
        timeline = self._timeline(self._mode(is_train))
        return timeline.branches if isinstance(timeline, Schedule) else ()

    def separate_program(self, is_train: bool | None = None) -> tuple[Launch, tuple[Node, ...]]:
        """The same program with a part per node, for measuring nodes one by one, and its nodes."""
        mode = self._mode(is_train)
        return self._compiled(mode, separate=True), self._timeline(mode).nodes

    def _mode(self, is_train: bool | None) -> Mode:
        wanted = bool(self._graph.grads) if is_train is None else is_train
        with_backward = wanted and bool(self._graph.grads)
        return Mode(with_backward, with_backward)

    def debug_str(self) -> str:
        """The graph, the memory plan and the bytes it takes."""
        plan = self.memory_plan()
        kept = plan.kept_bytes if isinstance(plan, MemoryPlan) else 0
        total = (plan.total_bytes + kept) / 2**20
        return f"{self._symbol.debug_str()}{plan}\nTotal {total:.0f} MB allocated\n"

    def get_optimized_symbol(self) -> Symbol:
        """The symbol that is run: what the graph passes made of the bound one."""
        return type(self._symbol)(self._graph.heads)


def _graph_mode(mode: Mode) -> Mode:
    """The mode whose graph a mode runs: with gradients there is one, that of training."""
    return Mode(True, True) if mode.with_backward else mode


def _copy_checked(name: str, value: NDArray, target: NDArray) -> None:
    if tuple(value.shape) != target.shape:
        raise ShapeError(
            f"Shape not match! Argument {name}, need: {target.shape}, received: {tuple(value.shape)}"
        )
    target[...] = value
