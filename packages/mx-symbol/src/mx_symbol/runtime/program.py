# SPDX-License-Identifier: Apache-2.0
"""Native programs: every node a prepared call over slots, built once, replayed without Python."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

from mx_core import dtypes, services
from mx_core.context import Context
from mx_core.errors import ArgumentError, PluginError
from mx_core.graph import PREPARED
from mx_ndarray import NDArray, invoke_capsule, nd, prepare_call
from mx_symbol import _core
from mx_symbol.graph import Entry, Node
from mx_symbol.memory.schedule import Schedule
from mx_symbol.passes.bound_graph import BoundGraph
from mx_symbol.runtime.joint_arrays import arrays_together
from mx_symbol.runtime.prepacking import PrepackCache

_BULK = "MXNET_EXEC_BULK_EXEC"


class Launch(Protocol):
    """A program in parts that are started one by one."""

    def push(self, part: int, priority: int = 0) -> None:
        """Starts a part; asynchronous."""


class Arena:
    """Memory for intermediate values, shared by the programs of executors that never overlap.

    Threads: one at a time; a CachedOp holds its lock.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._array: NDArray | None = None
        self._others: dict[Context, Arena] = {}
        self.prepacks = PrepackCache()

    def at(self, context: Context) -> Arena:
        """The arena for another device, shared by the programs that share this one."""
        return self if context == self._context else self._others.setdefault(context, Arena(context))

    def reserve(self, n_bytes: int) -> NDArray | None:
        """An array of at least that many bytes; programs made before keep the one they have."""
        if n_bytes > 0 and (self._array is None or self._array.size < n_bytes):
            self._array = nd.empty((n_bytes,), self._context, "uint8")
        return self._array

    @property
    def n_bytes(self) -> int:
        """Present size."""
        return 0 if self._array is None else int(self._array.size)


class Calls:
    """Prepared calls by signature; equal nodes share one.

    Threads: one at a time; a CachedOp holds its lock.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._made: dict[Any, Any] = {}

    def get(self, graph: BoundGraph, node: Node, is_train: bool) -> Any:
        """The call of a node."""
        assert node.op is not None and node.params is not None
        inputs = [graph.specs[entry] for entry in node.inputs]
        outputs = [graph.specs[Entry(node, i)] for i in range(node.num_outputs)]
        key = (node.op, node.params, tuple(inputs), tuple(outputs), is_train)
        call = self._made.get(key)
        if call is None:
            place = self._context
            prepared = graph.kernels.get(node.op, node.params, inputs, outputs, place, is_train)
            call = prepare_call(node.op, node.params, inputs, outputs, place, is_train, prepared)
            self._made[key] = call
        return call


def native_program(context: Context, name: str) -> _core.Program:
    """An empty program on the services of this process."""
    try:
        random = services.random(context.device_type).capsule
    except PluginError:
        random = None  # a graph without random nodes needs none
    place = (context.device_typeid, context.device_id)
    return _core.Program(services.engine().capsule, invoke_capsule(), random, place, name)


@dataclass(frozen=True)
class Compiled:
    """A native program and the order in which it wants its arrays.

    Attributes
    ----------
    entries : variables, outputs and gradients by array number; the arena follows, if there is one
    arena_bytes : size of the arena; 0 for none
    """

    program: _core.Program
    entries: tuple[Entry, ...]
    arena_bytes: int

    def bind(
        self, arrays: Mapping[Entry, NDArray], arena: NDArray | None, memo: _core.Memo | None = None
    ) -> _core.Binding:
        """The program on actual arrays, of the shapes and types it was compiled for.

        Bindings with one memo share what prepared nodes computed, if they share the arrays it lies in.
        """
        given = [arrays[entry] for entry in self.entries]
        if self.arena_bytes:
            assert arena is not None
            given.append(arena)
        return self.program.bind(given, memo)


def prepared_arrays(
    graph: BoundGraph, schedule: Schedule, context: Context, ends: Sequence[int] | None = None
) -> dict[Entry, NDArray]:
    """New arrays for what prepared nodes keep, and for what those of one part hand to those of another.

    Parameters
    ----------
    ends : of the parts, as in `Compiler.compile`
    """
    if not schedule.prepared:
        return {}
    parts = (schedule.n_forward, len(schedule.nodes)) if ends is None else ends
    part = {n: bisect_right(parts, i) for i, n in enumerate(schedule.nodes) if PREPARED in n.attrs}
    handed = {e for node in part for e in node.inputs if e.node in part and part[e.node] != part[node]}
    specs = {entry: graph.specs[entry] for entry in (*schedule.prepared, *handed)}
    if not handed:
        return arrays_together(specs, context)
    # A prepared node looks at how often what it reads was written, and that is counted by piece of memory.
    return {e: nd.empty(spec.shape, context, dtypes.name(spec.dtype)) for e, spec in specs.items()}


def segment_limits(is_train: bool) -> tuple[int, int]:
    """Most nodes that forward and backward push as one operation; 0 is no limit.

    Read from MXNet's variables when a program is compiled: `MXNET_EXEC_BULK_EXEC_TRAIN` and
    `MXNET_EXEC_BULK_EXEC_INFERENCE` (0: one node each), `MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN` with `_FWD`
    and `_BWD`. Without them a program is not cut: what MXNet gains by segments of 15 nodes is lost here.
    """
    phase = "TRAIN" if is_train else "INFERENCE"
    if _whole_number(f"{_BULK}_{phase}", 1) == 0:
        return 1, 1
    if not is_train:
        return 0, 0
    most = _whole_number(f"{_BULK}_MAX_NODE_TRAIN", 0)
    forward, backward = (_whole_number(f"{_BULK}_MAX_NODE_TRAIN_{way}", most) for way in ("FWD", "BWD"))
    return forward, backward


def _whole_number(variable: str, default: int) -> int:
    text = os.environ.get(variable, "").strip()
    if not text:
        return default
    if not text.isdecimal() or int(text) >= 2**31:
        raise ArgumentError(f"[{variable}] expected a whole number from 0, got {text!r}")
    return int(text)


class Compiler:
    """Turns a schedule into a native program.

    Threads: belongs to the one that compiles.

    Parameters
    ----------
    external : collection of Entry
        What has an array of its own; everything else lies where the plan says.
    """

    def __init__(
        self, graph: BoundGraph, schedule: Schedule, external: Collection[Entry], context: Context
    ) -> None:
        self._graph = graph
        self._schedule = schedule
        self._external = external
        self._program = native_program(context, "Executor")

    def compile(
        self,
        calls: Calls,
        is_train: bool,
        ends: Sequence[int] | None = None,
        trains_back: bool | None = None,
    ) -> Compiled:
        """The sealed program: part 0 forward, part 1 backward, or parts that end before these nodes.

        Parameters
        ----------
        trains_back : whether backward operators are those of training, where it is not as `is_train`; part 0 must not
            be started then
        """
        schedule, program = self._schedule, self._program
        arrays = {entry: program.add_array() for entry in schedule.flat.touched(self._external)}
        total = schedule.plan.total_bytes if self._planned() else 0
        arena = program.add_array(arena=True) if total else -1
        branches = schedule.branches if ends is None else ()
        n, n_forward = len(schedule.nodes), schedule.n_forward
        order = [t for branch in branches for t in branch.steps] if branches else range(n)
        back = is_train if trains_back is None else trains_back
        each = []
        for node in (schedule.nodes[first] for first in schedule.flat.firsts):
            assert node.op is not None
            each.append(calls.get(self._graph, node, is_train if node.op.backward_of is None else back))
        adds = {self._graph.grads[name] for name, req in self._graph.grad_req.items() if req == "add"}
        _core.add_nodes(
            program, schedule.flat, order, each, schedule.microseconds, arrays, arena, schedule.plan.placements, adds,
            dtypes.itemsize, back, PREPARED,
        )  # fmt: skip
        parts = (n_forward, n) if ends is None else ends
        most = segment_limits(is_train)
        limits = [most[end > n_forward] for end in parts]
        borders = accumulate(len(branch.steps) for branch in branches)
        program.seal(
            parts, limits, [(end, s.threads, s.after) for end, s in zip(borders, branches, strict=True)]
        )
        return Compiled(program, tuple(arrays), total)

    def _planned(self) -> bool:
        return any(entry not in self._external for entry in self._schedule.values)
