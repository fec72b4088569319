# SPDX-License-Identifier: Apache-2.0
"""CachedOp: a symbol as a function on arrays, compiled once per signature, with autograd through it.

A graph in which shapes depend on values has no signature to compile for: it runs partition by partition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_core.context import Context, current_context
from mx_core.errors import ArgumentError, MXNetError
from mx_core.forks import ForkSafeLock
from mx_ndarray import NDArray, autograd, nd
from mx_symbol._core import FlatGraph
from mx_symbol.graph import Entry, Node, topological_order
from mx_symbol.graph.collector import collector_paused
from mx_symbol.graph.gradient import apply_plain, gradient_graph
from mx_symbol.graph.planning import Planning
from mx_symbol.memory.schedule import make_schedule
from mx_symbol.passes import Passes
from mx_symbol.passes.bound_graph import BoundGraph, build, optimized, variables_of
from mx_symbol.runtime.partitions import Partitions, has_dynamic, has_state
from mx_symbol.runtime.program import Arena, Calls, Compiled, Compiler, prepared_arrays

if TYPE_CHECKING:
    from mx_symbol._core import Memo
    from mx_symbol.symbol import Symbol

#: signatures kept per CachedOp
CACHE_SIZE = 64
#: flags that MXNet's front ends give; here memory is always planned, and programs are kept per shape
FLAGS = frozenset((
    "inline_limit", "forward_bulk_size", "backward_bulk_size", "static_alloc", "static_shape", "is_dynamic",
    "data_indices", "param_indices", "subgraph",
))  # fmt: skip


class CachedOp:
    """Calls a symbol like a function.

    Threads: any may call one; calls that share memory are ordered by the engine.

    Parameters
    ----------
    sym : Symbol
        What to compute.
    flags : sequence of (str, value)
        Accepted for compatibility (`FLAGS`): memory is always planned, and programs are kept per shape.
    passes : Passes, optional
        Which graph passes run; by default those of MX_PASSES.
    memory_mode, branches : str, optional
        How memory and branches are planned, as in `Symbol.bind`.

    Raises
    ------
    ArgumentError  a choice or a flag that does not exist

    Examples
    --------
    >>> op = CachedOp(sym.Variable("a") * 2)
    >>> op(nd.array([1, 2])).asnumpy()
    array([2., 4.], dtype=float32)
    """

    def __init__(
        self,
        sym: Symbol,
        flags: Sequence[tuple[str, Any]] = (),
        passes: Passes | None = None,
        memory_mode: str | None = None,
        branches: str | None = None,
    ) -> None:
        for flag in dict(flags):
            if flag not in FLAGS:
                raise ArgumentError(
                    f"[CachedOp] no flag is named {flag!r}; flags: {', '.join(sorted(FLAGS))}"
                )
        self._heads = _own_outputs(sym.entries)
        self._passes = passes
        Planning.parse(memory_mode, branches)  # says now when there is no such choice
        self._planning = (memory_mode, branches)
        graph = FlatGraph(topological_order(e.node for e in self._heads))
        arguments, auxiliaries = variables_of(graph)
        alone = has_dynamic(graph) or has_state(graph)
        self._partitions = Partitions(self._heads, None, passes) if alone else None
        self._arguments = frozenset(arguments)
        self._names = [node.name for node in sym.nodes if node.is_variable]
        assert set(self._names) == {*arguments, *auxiliaries}
        self._signatures: dict[Any, _Signature] = {}
        self._arenas: dict[Context, Arena] = {}
        self._gradients: dict[tuple[str, ...], _Gradients] = {}
        self._lock = ForkSafeLock()
        self._unrecorded = (False,) * len(self._names)

    @property
    def input_names(self) -> list[str]:
        """Names of the inputs in the order of a call: `Symbol.list_inputs()`."""
        return list(self._names)

    def __call__(self, *args: NDArray) -> NDArray | list[NDArray]:
        """Computes the outputs as new arrays; asynchronous, recorded if the thread records.

        Parameters
        ----------
        *args : NDArray
            One per input, auxiliary states included (which are updated in training).

        Raises
        ------
        ArgumentError  a wrong number of arrays
        ShapeError, DTypeError  shapes or types contradict the graph
        """
        if len(args) != len(self._names):
            raise ArgumentError(
                f"[CachedOp] expected {len(self._names)} arrays ({', '.join(self._names)}), got {len(args)}"
            )
        if self._partitions is not None:
            with args[0].context if args else current_context():
                results = self._partitions(dict(zip(self._names, args, strict=True)))
            return results[0] if len(results) == 1 else results
        recorded = tuple([x._recorded for x in args]) if autograd.is_recording() else self._unrecorded
        signature, memory = self._ready(args, recorded)
        if any(recorded):
            outputs = _Recorded(self, signature)(*args)
        else:
            outputs = signature.run(args, memory)
        results = [outputs] if isinstance(outputs, NDArray) else list(outputs)
        return results[0] if len(results) == 1 else results

    def gradients(self, names: Sequence[str]) -> _Gradients:
        """The gradients by some inputs as a function of its own, which can be recorded and differentiated."""
        key = tuple(names)
        with self._lock:
            found = self._gradients.get(key)
            if found is None:
                found = self._gradients[key] = _Gradients(self._heads, key)
            return found

    def _reserved(self, signature: _Signature) -> NDArray | None:
        arena = self._arenas.get(signature.context)
        if arena is None:
            arena = self._arenas[signature.context] = Arena(signature.context)
        return arena.reserve(signature.compiled.arena_bytes)

    def _ready(
        self, args: Sequence[NDArray], recorded: tuple[bool, ...]
    ) -> tuple[_Signature, NDArray | None]:
        """What is compiled for a call, and memory for its intermediate values; a recorded one has its own."""
        is_train = autograd.is_training()
        context = args[0].context if args else current_context()
        codes = tuple([x._dtype_code for x in args])
        key = (context, tuple([x.shape for x in args]), codes, recorded, is_train)
        with self._lock:
            found = self._signatures.pop(key, None)
            if found is None:
                found = self._compile(args, codes, recorded, is_train, context)
            self._signatures[key] = found
            while len(self._signatures) > CACHE_SIZE:
                del self._signatures[next(iter(self._signatures))]
            return found, None if any(recorded) else self._reserved(found)

    @collector_paused()
    def _compile(
        self,
        args: Sequence[NDArray],
        codes: tuple[int, ...],
        recorded: tuple[bool, ...],
        is_train: bool,
        context: Context,
    ) -> _Signature:
        requests = {
            name: "write"
            for name, wanted in zip(self._names, recorded, strict=True)
            if wanted and name in self._arguments
        }
        graph = build(
            self._heads,
            {name: tuple(x.shape) for name, x in zip(self._names, args, strict=True)},
            dict(zip(self._names, codes, strict=True)),
            requests,
            context,
            self._passes,
            planning=Planning.parse(*self._planning, context),
        )
        graph = optimized(graph, bool(requests), is_train, context)
        schedule = make_schedule(graph, bool(requests))
        table = {**graph.arguments, **graph.auxiliaries}
        inputs = tuple(Entry(table[name]) for name in self._names)
        heads = [None if node is None else Entry(node) for node in graph.head_grads]
        prepared = prepared_arrays(graph, schedule, context)
        external = {*inputs, *graph.heads, *graph.grads.values(), *(h for h in heads if h), *prepared}
        compiled = Compiler(graph, schedule, external, context).compile(Calls(context), is_train)
        repeatable = not any(
            node.op is not None and (node.op.is_random or node.mutated)
            for node in schedule.nodes[: schedule.n_forward]
        )
        grads = tuple(graph.grads.get(name) for name in self._names)
        return _Signature(
            graph,
            compiled,
            context,
            inputs,
            tuple(heads),
            grads,
            repeatable,
            prepared,
            compiled.program.memo(),
        )


def _own_outputs(heads: Sequence[Entry]) -> tuple[Entry, ...]:
    """Heads of which each is computed and none comes twice, since each becomes a new array."""
    result: list[Entry] = []
    for head in heads:
        if head.node.is_variable or head in result:
            head = apply_plain("_copy", (head,), f"{head.name}_copy{len(result)}")
        result.append(head)
    return tuple(result)


@dataclass(frozen=True)
class _Signature:
    """What is compiled for one combination of shapes, types and modes."""

    graph: BoundGraph
    compiled: Compiled
    context: Context
    inputs: tuple[Entry, ...]
    head_grads: tuple[Entry | None, ...]
    grads: tuple[Entry | None, ...]
    repeatable: bool
    prepared: dict[Entry, NDArray]
    memo: Memo

    def new(self, entry: Entry) -> NDArray:
        spec = self.graph.specs[entry]
        return nd.empty(spec.shape, self.context, dtypes.name(spec.dtype))

    def arrays(self, args: Sequence[NDArray]) -> dict[Entry, NDArray]:
        """Inputs as given; outputs and gradients new, without memory until they are written."""
        table = {**self.prepared, **dict(zip(self.inputs, args, strict=True))}
        for entry in (*self.graph.heads, *self.head_grads, *self.grads):
            if entry is not None:
                table[entry] = self.new(entry)
        return table

    def run(self, args: Sequence[NDArray], memory: NDArray | None) -> list[NDArray]:
        arrays = self.arrays(args)
        self.compiled.bind(arrays, memory, self.memo).push(0)
        return [arrays[head] for head in self.graph.heads]


class _Gradients:
    """Gradients of a graph by some of its variables, from the values of all variables and the head gradients."""

    def __init__(self, heads: Sequence[Entry], names: Sequence[str]) -> None:
        from mx_symbol.symbol import Symbol

        table = {n.name: n for n in topological_order(e.node for e in heads) if n.op is None}
        prefix = "_head_grad"
        while any(name.startswith(prefix) for name in table):
            prefix = "_" + prefix
        self._given = [f"{prefix}_{i}" for i in range(len(heads))]
        variables = [Entry(Node(None, None, name)) for name in self._given]
        found = gradient_graph(heads, variables, [table[name] for name in names]).grads
        made = [entry for entry in found if entry is not None]
        self._places = [None if entry is None else made.index(entry) for entry in found]
        self._op = CachedOp(Symbol(made)) if made else None

    def __call__(self, values: Mapping[str, NDArray], head_grads: Sequence[NDArray]) -> list[NDArray | None]:
        """One per name, None where it is zero."""
        if self._op is None:
            return [None] * len(self._places)
        table = {**values, **dict(zip(self._given, head_grads, strict=True))}
        made = self._op(*(table[name] for name in self._op.input_names))
        results = [made] if isinstance(made, NDArray) else made
        return [None if place is None else results[place] for place in self._places]


class _Recorded(autograd.Function):
    """One recorded call: its own memory from forward to backward."""

    def __init__(self, op: CachedOp, signature: _Signature) -> None:
        super().__init__()
        self._op = op
        self._signature = signature
        self._spent = False
        self._kept: NDArray | None = None

    def forward(self, *inputs: NDArray) -> list[NDArray]:
        signature = self._signature
        self._inputs = inputs
        self._arrays = signature.arrays(inputs)
        self._arena = Arena(signature.context).reserve(signature.compiled.arena_bytes)
        signature.compiled.bind(self._arrays, self._arena, signature.memo).push(0)
        return [self._arrays[head] for head in signature.graph.heads]

    def _gradients(
        self, shapes: Sequence[tuple[int, ...]], grads: Sequence[NDArray], retained: bool
    ) -> list[Any]:
        if autograd.is_recording():  # with create_graph, as a call of the gradient graph
            return self._recorded_backward(grads)
        with self._op._lock:  # between this and the program comes no other backward
            if self._arena is not None:
                self._renew(self._arena, retained)
            return super()._gradients(shapes, grads, retained)

    def _renew(self, arena: NDArray, retained: bool) -> None:
        """Puts back what forward kept, which backward uses up; a copy of it lasts as long as the graph."""
        if self._kept is not None:
            self._kept.copyto(arena)
        elif self._spent:
            raise MXNetError(
                "[CachedOp] an earlier backward without retain_graph has failed and used up what forward kept; "
                "record the call again"
            )
        elif retained:
            self._kept = arena.copy()
        self._spent = True

    def _recorded_backward(self, output_grads: Sequence[NDArray]) -> list[NDArray | None]:
        signature = self._signature
        if not signature.repeatable:
            raise MXNetError(
                "[CachedOp] create_graph: the gradient of the gradient would run operators again that draw "
                "random numbers or write states; call those outside of the CachedOp"
            )
        names = self._op.input_names
        wanted = [name for name, entry in zip(names, signature.grads, strict=True) if entry is not None]
        table = dict(zip(names, self._inputs, strict=True))
        made = dict(zip(wanted, self._op.gradients(wanted)(table, output_grads), strict=True))
        return [made.get(name) for name in names]

    def backward(self, *output_grads: NDArray) -> list[NDArray | None]:
        signature = self._signature
        arrays = dict(self._arrays)
        for entry, grad in zip(signature.head_grads, output_grads, strict=True):
            if entry is not None:
                arrays[entry] = grad
        grads = [None if entry is None else signature.new(entry) for entry in signature.grads]
        for entry, fresh in zip(signature.grads, grads, strict=True):
            if entry is not None and fresh is not None:
                arrays[entry] = fresh
        signature.compiled.bind(arrays, self._arena, signature.memo).push(1)
        return grads
