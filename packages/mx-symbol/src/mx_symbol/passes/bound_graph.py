# SPDX-License-Identifier: Apache-2.0
"""A graph ready to be planned: forward and gradient nodes in one schedule, everything inferred."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mx_core import dtypes
from mx_core.context import Context
from mx_core.errors import MXNetError, ShapeError
from mx_core.graph import PREPARED
from mx_core.kernels import TensorSpec
from mx_symbol._core import FlatGraph, Inference, specs_of
from mx_symbol.graph import Entry, Node, auxiliary_variables, rewrite, topological_order
from mx_symbol.graph.facts import Facts, spec_of
from mx_symbol.graph.gradient import apply_plain, gradient_graph
from mx_symbol.graph.infer import (
    PartialShape,
    complete,
    legacy_out,
    open_nodes,
    shape_inference,
    type_inference,
)
from mx_symbol.graph.ir import Graph, Kernels
from mx_symbol.graph.planning import Planning
from mx_symbol.passes import Observer, Passes, run_stage

FLOAT32 = 0
#: elements of one array; beyond it byte counts may leave 64 bits
LARGEST = 2**58


@dataclass(frozen=True)
class BoundGraph:
    """What an executor runs.

    Attributes
    ----------
    heads : the outputs, after the graph passes
    schedule : operator nodes; the first `n_forward` are the forward graph
    arguments, auxiliaries : variables by name, in the order of the symbol
    head_grads : per output the variable of its gradient, where the gradient graph reads it
    grads : per argument with a gradient its entry, which nothing else writes or hands out
    grad_req : per argument in `grads`: "write" or "add"
    specs : shape and type of every entry
    passes : which graph passes its programs get
    planning : how their memory and branches are planned
    kernels : those that passes have prepared
    shared_grads : arguments whose gradients lie in memory that another array uses too
    """

    heads: tuple[Entry, ...]
    schedule: tuple[Node, ...]
    n_forward: int
    arguments: dict[str, Node]
    auxiliaries: dict[str, Node]
    head_grads: tuple[Node | None, ...]
    grads: dict[str, Entry]
    grad_req: dict[str, str]
    specs: dict[Entry, TensorSpec]
    passes: Passes = Passes()
    planning: Planning = Planning()
    kernels: Kernels = field(default_factory=Kernels)
    shared_grads: frozenset[str] = frozenset()


def variables_of(graph: FlatGraph) -> tuple[dict[str, Node], dict[str, Node]]:
    """Arguments and auxiliary states by name.

    Raises
    ------
    MXNetError  two variables have one name
    """
    aux = auxiliary_variables(graph.select(_mutates))
    tables: tuple[dict[str, Node], dict[str, Node]] = ({}, {})
    for node in graph.variables:
        if node.name in tables[0] or node.name in tables[1]:
            raise MXNetError(
                f"[bind] two variables are named {node.name!r}; names of a bound graph are unique"
            )
        tables[node in aux][node.name] = node
    return tables


def _mutates(facts: Facts) -> bool:
    return bool(facts.mutated)


def build(
    heads: Sequence[Entry],
    shapes: Mapping[str, PartialShape | None],
    types: Mapping[str, int | None],
    grad_req: Mapping[str, str],
    context: Context | None = None,
    passes: Passes | None = None,
    observe: Observer | None = None,
    planning: Planning | None = None,
    whole: FlatGraph | None = None,
) -> BoundGraph:
    """Infers every shape and type, runs the passes of stage `graph` and adds the gradient graph.

    Parameters
    ----------
    shapes, types : what is known of arguments and auxiliary states, by name
    grad_req : "write", "add" or "null" by argument; missing is "null"
    context : where it will run
    passes : which graph passes run; by default those that MX_PASSES says
    observe : sees the graph before and after every pass
    planning : of memory and branches; by default what the environment says
    whole : the nodes of a graph that `closed_graph` made

    Raises
    ------
    ShapeError, DTypeError  contradiction, or something that cannot be inferred
    """
    if whole is None:
        heads, whole = closed_graph(heads, shapes)
    arguments, auxiliaries = variables_of(whole)
    chosen = Passes.parse() if passes is None else passes
    place = Context("cpu") if context is None else context
    planned = Planning.parse(context=place) if planning is None else planning
    specs = _specs(whole, shapes, types)
    before = Graph(heads, (), specs, place, whole=whole)
    after = run_stage(before, "graph", chosen, observe)
    heads = own_outputs(after, before)
    if heads == after.outputs:
        whole = after.whole
    else:
        whole = FlatGraph(topological_order(entry.node for entry in heads))
    forward = [node for node in whole.nodes if node.op is not None]
    wanted = [name for name in arguments if grad_req.get(name, "null") != "null"]
    if not wanted:
        return BoundGraph(
            heads, tuple(forward), len(forward), arguments, auxiliaries, (), {}, {}, after.specs, chosen, planned
        )  # fmt: skip
    head_grads = [Node(None, None, f"_head_grad_{i}") for i in range(len(heads))]
    made = gradient_graph(heads, [Entry(n) for n in head_grads], [arguments[n] for n in wanted], whole)
    named = {name: entry for name, entry in zip(wanted, made.grads, strict=True) if entry is not None}
    reqs = {name: grad_req[name] for name in wanted}
    backward = made.nodes
    named, extra = own_gradients(heads, named, reqs, backward, arguments)
    gradients = FlatGraph([*backward, *extra])
    read = {entry.node for entry in gradients.outside}
    used = tuple(node if node in read else None for node in head_grads)
    known = dict(after.specs)
    for node in (
        *arguments.values(),
        *auxiliaries.values(),
    ):  # a pass may have removed the last reader of one
        known.setdefault(Entry(node), specs[Entry(node)])
    known.update((Entry(n), known[head]) for n, head in zip(head_grads, heads, strict=True) if n in read)
    known.update(_gradient_specs(gradients, known, named, arguments))
    schedule = (*forward, *gradients.nodes)
    return BoundGraph(
        tuple(heads), schedule, len(forward), arguments, auxiliaries, used, named, reqs, known, chosen, planned
    )  # fmt: skip


def closed_graph(
    heads: Sequence[Entry], shapes: Mapping[str, PartialShape | None], whole: FlatGraph | None = None
) -> tuple[tuple[Entry, ...], FlatGraph]:
    """The graph in which `zeros((0, 3))` has the shape that its use tells, and its nodes; without one it is empty.

    `whole` has the nodes of the given graph, where they are at hand.
    """
    if whole is None:
        whole = FlatGraph(topological_order(entry.node for entry in heads))
    open_ones = frozenset(open_nodes(whole))
    if not open_ones:
        return tuple(heads), whole
    known = shape_inference(whole, shapes)

    def closed(node: Node, _: list[Entry]) -> list[Entry] | None:
        if node not in open_ones:
            return None
        assert node.op is not None and node.params is not None
        shape = legacy_out(known.get(Entry(node)))
        made = node.copy()
        made.params = node.op.Param.parse({**node.params.attrs(), "shape": shape}, op=node.op.name)
        return [Entry(made)]

    made = tuple(rewrite(heads, closed))
    return made, FlatGraph(topological_order(entry.node for entry in made))


def optimized(
    graph: BoundGraph,
    with_backward: bool,
    is_train: bool,
    context: Context,
    observe: Observer | None = None,
    arrivals: Mapping[Entry, Entry] | None = None,
) -> BoundGraph:
    """The graph of one program after its passes, forward alone or with the gradient graph.

    Outputs, gradients and variables correspond one to one to those of `graph`; entries do not.

    Parameters
    ----------
    arrivals : variables by the computed values that passes see in their place, since every run writes them
    """
    n = len(graph.schedule) if with_backward else graph.n_forward
    times = {node: i for i, node in enumerate(graph.schedule[:n])}
    grads = tuple(graph.grads.values()) if with_backward else ()
    before = Graph(graph.heads, grads, dict(graph.specs), context, is_train, times)
    after = before
    if not with_backward and not is_train:
        after = run_stage(after, "inference", graph.passes, observe)
    after = run_stage(after, "program", graph.passes, observe)
    after = after.replace(arrivals or {})
    backward = [node for node in after.nodes if node not in after.forward]
    heads = own_outputs(after, before)
    reqs = dict(graph.grad_req) if with_backward else {}
    named = dict(zip(graph.grads, after.grads, strict=True)) if with_backward else {}
    named, extra = own_gradients(heads, named, reqs, backward, graph.arguments, graph.shared_grads)
    for name, entry in named.items():
        if entry.node in extra:
            after.specs[entry] = after.specs[entry.node.inputs[0]]
            after.times[entry.node] = times[graph.grads[name].node]
    if extra or heads != after.outputs:
        after = Graph(
            heads, tuple(named.values()), after.specs, context, is_train, after.times, after.kernels
        )
    n_forward = sum(node in after.forward for node in after.nodes)
    return replace(
        graph, heads=heads, schedule=after.nodes, n_forward=n_forward,
        head_grads=graph.head_grads if with_backward else (), grads=named, grad_req=reqs, specs=after.specs,
        kernels=after.kernels,
    )  # fmt: skip


def own_outputs(graph: Graph, original: Graph) -> tuple[Entry, ...]:
    """Outputs that are apart and computed where the original ones were: copies where passes merged them."""
    result: list[Entry] = []
    seen_old: set[Entry] = set()
    taken: set[Entry] = set()
    for old, new in zip(original.outputs, graph.outputs, strict=True):
        repeated = new in taken and old not in seen_old
        rarely = PREPARED in new.node.attrs  # what the caller may overwrite is computed every time
        if repeated or rarely or (new.node.is_variable and not old.node.is_variable):
            new = graph.apply("_copy", (new,), old.node.name)[0]
            graph.times[new.node] = original.times[old.node]
        seen_old.add(old)
        taken.add(new)
        result.append(new)
    return tuple(result)


def own_gradients(
    heads: Sequence[Entry],
    grads: Mapping[str, Entry],
    grad_req: dict[str, str],
    backward: Sequence[Node],
    arguments: Mapping[str, Node],
    shared: frozenset[str] = frozenset(),
) -> tuple[dict[str, Entry], list[Node]]:
    """Gives every gradient an entry of its own, by a copy where it would be shared.

    A zero gradient is written as zeros, and forgotten where it would be added. Nobody reads one that lies in shared
    memory.
    """
    read: set[Entry] = set()
    if "add" in grad_req.values() or shared:
        read.update(entry for node in backward for entry in node.inputs)
        # Of several arguments with one gradient all but one will read it.
        read.update(entry for entry, count in Counter(grads.values()).items() if count > 1)
    taken = set(heads)
    made = set(backward)
    result: dict[str, Entry] = {}
    extra: list[Node] = []
    for name, req in list(grad_req.items()):
        found = grads.get(name)
        if found is None and req == "add":
            del grad_req[name]
            continue
        if found is None:
            own = apply_plain("zeros_like", (Entry(arguments[name]),), f"{name}_zero_grad")
            extra.append(own.node)
        elif found.node not in made or found in taken or (found in read and (req == "add" or name in shared)):
            own = apply_plain("_copy", (found,), f"{name}_grad_copy")
            extra.append(own.node)
        else:
            own = found
        taken.add(own)
        result[name] = own
    return result, extra


def _specs(
    graph: FlatGraph,
    shapes: Mapping[str, PartialShape | None],
    types: Mapping[str, int | None],
) -> dict[Entry, TensorSpec]:
    """Shape and type of every entry of a forward graph."""
    dims = shape_inference(graph, shapes)
    for node in open_nodes(graph):
        p: Any = node.params
        if not complete(dims.get(Entry(node))):
            dims.assign(Entry(node), p.shape)
    dims.run()
    refuse_unknown(graph, dims)
    return _complete(dims, type_inference(graph, types, FLOAT32))


def _gradient_specs(
    graph: FlatGraph,
    specs: dict[Entry, TensorSpec],
    grads: Mapping[str, Entry],
    arguments: Mapping[str, Node],
) -> dict[Entry, TensorSpec]:
    """Shape and type of every entry of a gradient graph, whose forward graph is known.

    The gradient of an argument has its shape and type, whether or not the rules can tell.
    """
    found = _forward_specs(graph, specs)
    if found is not None and all(found[entry] == specs[Entry(arguments[n])] for n, entry in grads.items()):
        return found
    dims = shape_inference(graph, {}, lambda entry: specs[entry].shape)
    codes = type_inference(graph, {}, None, lambda entry: specs[entry].dtype)
    for name, entry in grads.items():
        spec = specs[Entry(arguments[name])]
        dims.assign(entry, spec.shape)
        codes.assign(entry, spec.dtype)
    dims.run()
    codes.run()
    return _complete(dims, codes)


def _forward_specs(graph: FlatGraph, specs: dict[Entry, TensorSpec]) -> dict[Entry, TensorSpec] | None:
    """What nodes compute from entries that are known, if every node's inputs tell its outputs."""

    def ask(node: Node, inputs: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...] | None:
        outputs = node.facts.specs(tuple([(spec.shape, spec.dtype) for spec in inputs]), node.name)
        for i, spec in enumerate(outputs or ()):
            _refuse_huge(Entry(node, i), spec.shape)
        return outputs

    return graph.forward_specs(specs, ask)


def _complete(dims: Inference[PartialShape], codes: Inference[int]) -> dict[Entry, TensorSpec]:
    def make(entry: Entry, shape: PartialShape | None, code: int | None) -> TensorSpec:
        if shape is None or not complete(shape):
            raise ShapeError(f"[{entry.name}] the shape cannot be inferred: {legacy_out(shape)}")
        _refuse_huge(entry, shape)
        return spec_of(shape, FLOAT32 if code is None else code)

    return specs_of(dims, codes, make)


def refuse_unknown(graph: FlatGraph, dims: Inference[PartialShape]) -> None:
    """ShapeError if the shape of a variable is not known."""
    found = {node.name: legacy_out(dims.get(Entry(node))) for node in graph.variables
             if not complete(dims.get(Entry(node)))}  # fmt: skip
    if not found:
        return
    unknown = [name for name, shape in found.items() if not shape]
    partial = [f"{name} {shape}" for name, shape in found.items() if shape]
    said = [f"nothing is known of {_listed(unknown)}"] if unknown else []
    said += [f"in {_listed(partial)} {legacy_out((-1,))[0]} is an unknown dimension"] if partial else []
    raise ShapeError(f"[bind] shapes of arguments cannot be inferred; give more of them: {'; '.join(said)}")


def _listed(names: list[str]) -> str:
    more = [f"{len(names) - 20} more"] if len(names) > 20 else []
    return ", ".join(names[:20] + more)


def _refuse_huge(entry: Entry, shape: tuple[int, ...]) -> None:
    elements = 1
    for extent in shape:
        elements *= extent
    if elements > LARGEST:
        raise ShapeError(f"[{entry.name}] shape {shape} has more than 2**58 elements")


def bytes_of(spec: TensorSpec) -> int:
    """Bytes of a value."""
    size = dtypes.itemsize(spec.dtype)
    for extent in spec.shape:
        size *= extent
    return size
