# SPDX-License-Identifier: Apache-2.0
"""CachedOp: a symbol as a function on arrays, compiled once per signature, with autograd through it.

A graph in which shapes depend on values has no signature to compile for: it runs partition by partition.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from mx_core.context import Context, current_context
from mx_core.errors import ArgumentError, MXNetError
from mx_core.forks import ForkSafeLock
from mx_ndarray import NDArray, autograd, nd
from mx_ndarray.several import signature_key
from mx_symbol._core import FlatGraph
from mx_symbol.graph import Entry, Node, topological_order
from mx_symbol.graph.collector import collector_paused
from mx_symbol.graph.gradient import apply_plain, gradient_graph
from mx_symbol.graph.planning import Planning
from mx_symbol.memory.schedule import Schedule, make_schedule
from mx_symbol.passes import Passes
from mx_symbol.passes.bound_graph import BoundGraph, build, optimized, variables_of
from mx_symbol.passes.changes import tell
from mx_symbol.runtime.partitions import Partitions, has_dynamic, has_state
from mx_symbol.runtime.program import Arena, Calls, Compiled, Compiler, prepared_arrays
from mx_symbol.runtime.signature import RecordedCall, Signature

if TYPE_CHECKING:
    from mx_symbol.symbol import Symbol

#: signatures kept per CachedOp
CACHE_SIZE = 64
#: bits of a key's first byte
_RECORDED = 1
_OF_GRADIENTS = 4
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
        self._signatures: dict[bytes, Signature] = {}
        self._last: tuple[bytes, Any] = (b"", None)  # the key that came last, which often comes next
        self._arenas: dict[Context, Arena] = {}
        self._gradients: dict[tuple[str, ...], _Gradients] = {}
        self._lock = ForkSafeLock()
        tell(self)

    def forget_compiled(self) -> None:
        """Compiles anew at the next call; calls that are recorded keep what they ran."""
        with self._lock:
            self._signatures.clear()
            self._last = (b"", None)

    @property
    def input_names(self) -> list[str]:
        """Names of the inputs in the order of a call: `Symbol.list_inputs()`."""
        return list(self._names)

    def __call__(
        self, *args: NDArray, out: NDArray | Sequence[NDArray] | None = None
    ) -> NDArray | list[NDArray]:
        """Computes the outputs; asynchronous, recorded if the thread records.

        Parameters
        ----------
        *args : NDArray
            One per input, auxiliary states included (which are updated in training).
        out : NDArray or sequence of NDArray, optional
            Where the outputs go, which are copied there; by default they are new arrays.

        Raises
        ------
        ArgumentError  a wrong number of arrays
        ShapeError, DTypeError  shapes or types contradict the graph
        """
        if out is not None:
            return _copied(self(*args), out)
        if len(args) != len(self._names):
            raise ArgumentError(
                f"[CachedOp] expected {len(self._names)} arrays ({', '.join(self._names)}), got {len(args)}"
            )
        if self._partitions is not None:
            with args[0].context if args else current_context():
                results = self._partitions(dict(zip(self._names, args, strict=True)))
            return results[0] if len(results) == 1 else results
        key = signature_key(args)
        last_key, signature = self._last
        if key != last_key:
            if key[0] & _OF_GRADIENTS:  # as they are now: a backward may write them before that of this call
                args = tuple(map(self._as_it_is, self._names, args))
                key = bytes((key[0] ^ _OF_GRADIENTS, *key[1:]))
            signature = self._signature(key, args)
        if key[0] & _RECORDED:
            results = RecordedCall(signature, args, self._lock, self._second_order).outputs()
        else:
            with self._lock:
                memory = self._reserved(signature)
            results = signature.forward(args, memory)[1]
        return results[0] if len(results) == 1 else results

    def _as_it_is(self, name: str, given: NDArray) -> NDArray:
        """A copy of an array that a backward may write; states, which the call writes, are taken themselves."""
        return given.copy() if given._has_gradients and name in self._arguments else given

    def _second_order(
        self, signature: Signature, inputs: Sequence[NDArray], head_grads: Sequence[NDArray]
    ) -> list[NDArray | None]:
        """Gradients of a recorded call that can be differentiated: the gradient graph as a recorded call."""
        if not signature.repeatable:
            raise MXNetError(
                "[CachedOp] create_graph: the gradient of the gradient would run operators again that draw "
                "random numbers or write states; call those outside of the CachedOp"
            )
        wanted = [name for name, entry in zip(self._names, signature.grads, strict=True) if entry is not None]
        table = dict(zip(self._names, inputs, strict=True))
        made = dict(zip(wanted, self._gradients_by(wanted)(table, head_grads), strict=True))
        return [made.get(name) for name in self._names]

    def _gradients_by(self, names: Sequence[str]) -> _Gradients:
        """The gradients by some inputs as a function of its own, which can be recorded and differentiated."""
        key = tuple(names)
        with self._lock:
            found = self._gradients.get(key)
            if found is None:
                found = self._gradients[key] = _Gradients(self._heads, key)
            return found

    def _reserved(self, signature: Signature) -> NDArray | None:
        arena = self._arenas.get(signature.context)
        if arena is None:
            arena = self._arenas[signature.context] = Arena(signature.context)
        return arena.reserve(signature.compiled.arena_bytes)

    def _signature(self, key: bytes, args: Sequence[NDArray]) -> Signature:
        """What is compiled for a call."""
        with self._lock:
            found = self._signatures.pop(key, None)
            if found is None:
                found = self._compile(args, bool(key[0] & _RECORDED))
            self._signatures[key] = found
            while len(self._signatures) > CACHE_SIZE:
                del self._signatures[next(iter(self._signatures))]
            self._last = key, found
            return found

    @collector_paused()
    def _compile(self, args: Sequence[NDArray], recorded: bool) -> Signature:
        is_train = autograd.is_training()
        context = args[0].context if args else current_context()
        codes = [x._dtype_code for x in args]
        requests = {
            name: "write"
            for name, x in zip(self._names, args, strict=True)
            if recorded and x._recorded and name in self._arguments
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
        other: Callable[[], Compiled] | None = None
        if any(n.op is not None and n.op.backward_of and n.op.needs_train_flag for n in schedule.nodes):
            other = partial(_compiled_back, graph, schedule, external, context, is_train)
        repeatable = not any(
            node.mutated
            or node.facts.draws_for([graph.specs[Entry(node, i)].shape for i in range(node.num_outputs)])
            for node in schedule.nodes[: schedule.n_forward]
            if node.op is not None
        )
        grads = tuple(graph.grads.get(name) for name in self._names)
        text = partial(_text, self._heads, self._names)
        return Signature(
            graph, compiled, context, inputs, heads, grads, prepared, repeatable, is_train, other, text
        )


def _text(heads: Sequence[Entry], names: list[str]) -> tuple[str, list[str]]:
    """A graph in JSON, before passes, and the names of its inputs in the order of a call."""
    from mx_symbol.symbol import Symbol

    return Symbol(heads).tojson(), names


def _compiled_back(
    graph: BoundGraph, schedule: Schedule, external: Collection[Entry], context: Context, is_train: bool
) -> Compiled:
    """The same program with a backward that trains where forward did not, or does not where it did."""
    compiler = Compiler(graph, schedule, external, context)
    return compiler.compile(Calls(context), is_train, trains_back=not is_train)


def _copied(results: NDArray | list[NDArray], out: NDArray | Sequence[NDArray]) -> NDArray | list[NDArray]:
    """Copies results into the arrays that a caller gave, and returns those."""
    if isinstance(results, NDArray) and isinstance(out, NDArray):
        nd.identity(results, out=out)
        return out
    made = [results] if isinstance(results, NDArray) else results
    given = [out] if isinstance(out, NDArray) else list(out)
    if len(given) != len(made):
        raise ArgumentError(f"[CachedOp] out: expected {len(made)} arrays, got {len(given)}")
    return [nd.identity(each, out=target) for each, target in zip(made, given, strict=True)]


def _own_outputs(heads: Sequence[Entry]) -> tuple[Entry, ...]:
    """Heads of which each is computed and none comes twice, since each becomes a new array."""
    result: list[Entry] = []
    for head in heads:
        if head.node.is_variable or head in result:
            head = apply_plain("_copy", (head,), f"{head.name}_copy{len(result)}")
        result.append(head)
    return tuple(result)


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
