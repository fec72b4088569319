# SPDX-License-Identifier: Apache-2.0
"""A graph ready to be planned: forward and gradient nodes in one schedule, everything inferred."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mx_core import dtypes
from mx_core.errors import MXNetError, ShapeError
from mx_core.kernels import TensorSpec
from mx_symbol.gradient import apply_plain, gradient_graph
from mx_symbol.graph import Entry, Node, auxiliary_variables, topological_order
from mx_symbol.infer import (
    Inference,
    PartialShape,
    complete,
    legacy_out,
    shape_inference,
    type_inference,
)
from mx_symbol.passes import apply_passes

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


def variables_of(order: Sequence[Node]) -> tuple[dict[str, Node], dict[str, Node]]:
    """Arguments and auxiliary states by name.

    Raises
    ------
    MXNetError  two variables have one name
    """
    aux = auxiliary_variables(order)
    tables: tuple[dict[str, Node], dict[str, Node]] = ({}, {})
    for node in order:
        if node.is_variable:
            if node.name in tables[0] or node.name in tables[1]:
                raise MXNetError(
                    f"[bind] two variables are named {node.name!r}; names of a bound graph are unique"
                )
            tables[node in aux][node.name] = node
    return tables


def build(
    heads: Sequence[Entry],
    shapes: Mapping[str, PartialShape | None],
    types: Mapping[str, int | None],
    grad_req: Mapping[str, str],
) -> BoundGraph:
    """Adds the gradient graph and infers every shape and type.

    Parameters
    ----------
    shapes, types : what is known of arguments and auxiliary states, by name
    grad_req : "write", "add" or "null" by argument; missing is "null"

    Raises
    ------
    ShapeError, DTypeError  contradiction, or something that cannot be inferred
    """
    original = topological_order(entry.node for entry in heads)
    arguments, auxiliaries = variables_of(original)
    optimized = apply_passes(heads, any(req != "null" for req in grad_req.values()))
    order = original
    if optimized != tuple(heads):
        # What the passes removed may have been what told the shape of a variable.
        shapes, types = _known(original, shapes, types)
        heads = optimized
        order = topological_order(entry.node for entry in heads)
        order += [node for node in original if node.is_variable and node not in set(order)]
    forward = [node for node in order if node.op is not None]
    for node in forward:
        if node.op is not None and node.op.dynamic_output:
            raise MXNetError(
                f"[{node.op.name} {node.name!r}] has outputs whose shape depends on values; a bound "
                "graph needs fixed shapes"
            )
    wanted = [name for name in arguments if grad_req.get(name, "null") != "null"]
    head_grads = [Node(None, None, f"_head_grad_{i}") for i in range(len(heads))] if wanted else []
    grads, backward = _backward(heads, head_grads, [arguments[name] for name in wanted])
    named = {name: entry for name, entry in zip(wanted, grads, strict=True) if entry is not None}
    reqs = {name: grad_req[name] for name in wanted}
    named, extra = _own_entries(heads, named, reqs, backward, arguments)
    users = {entry.node for node in (*backward, *extra) for entry in node.inputs}
    used = tuple(node if node in users else None for node in head_grads)
    schedule = (*forward, *backward, *extra)
    everything = [*order, *(node for node in head_grads if node in users), *backward, *extra]
    specs = _specs(everything, heads, used, named, arguments, shapes, types)
    return BoundGraph(tuple(heads), schedule, len(forward), arguments, auxiliaries, used, named, reqs, specs)


def _known(
    order: Sequence[Node],
    shapes: Mapping[str, PartialShape | None],
    types: Mapping[str, int | None],
) -> tuple[dict[str, PartialShape | None], dict[str, int | None]]:
    dims, codes = shape_inference(order, shapes), type_inference(order, types, FLOAT32)
    variables = [node for node in order if node.is_variable]
    return (
        {node.name: dims.get(Entry(node)) for node in variables},
        {node.name: codes.get(Entry(node)) for node in variables},
    )


def _backward(
    heads: Sequence[Entry], head_grads: Sequence[Node], variables: Sequence[Node]
) -> tuple[tuple[Entry | None, ...], tuple[Node, ...]]:
    if not variables:
        return (), ()
    made = gradient_graph(heads, [Entry(node) for node in head_grads], variables)
    return made.grads, made.nodes


def _own_entries(
    heads: Sequence[Entry],
    grads: Mapping[str, Entry],
    grad_req: dict[str, str],
    backward: Sequence[Node],
    arguments: Mapping[str, Node],
) -> tuple[dict[str, Entry], list[Node]]:
    """Gives every gradient an entry of its own, by a copy where it would be shared.

    A zero gradient is written as zeros, and forgotten where it would be added.
    """
    readers: dict[Entry, int] = {}
    for node in backward:
        for entry in node.inputs:
            readers[entry] = readers.get(entry, 0) + 1
    for entry, count in Counter(grads.values()).items():
        if count > 1:  # all but one of these arguments will read it
            readers[entry] = readers.get(entry, 0) + count - 1
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
        elif found.node not in made or found in taken or (req == "add" and readers.get(found)):
            own = apply_plain("_copy", (found,), f"{name}_grad_copy")
            extra.append(own.node)
        else:
            own = found
        taken.add(own)
        result[name] = own
    return result, extra


def _specs(
    order: Sequence[Node],
    heads: Sequence[Entry],
    head_grads: Sequence[Node | None],
    grads: Mapping[str, Entry],
    arguments: Mapping[str, Node],
    shapes: Mapping[str, PartialShape | None],
    types: Mapping[str, int | None],
) -> dict[Entry, TensorSpec]:
    dims = shape_inference(order, shapes)
    codes = type_inference(order, types)
    _default_types(order, head_grads, codes)
    for state in (dims, codes):
        _tie_gradients(state, heads, head_grads, grads, arguments)
    _refuse_unknown(order, dims)
    specs = {}
    for node in order:
        for i in range(node.num_outputs):
            entry = Entry(node, i)
            shape, code = dims.get(entry), codes.get(entry)
            if shape is None or not complete(shape):
                raise ShapeError(f"[{entry.name}] the shape cannot be inferred: {legacy_out(shape)}")
            _refuse_huge(entry, shape)
            specs[entry] = TensorSpec(shape, FLOAT32 if code is None else code)
    return specs


def _default_types(order: Sequence[Node], head_grads: Sequence[Node | None], codes: Inference[int]) -> None:
    for node in order:
        free = node.is_variable and codes.get(Entry(node)) is None
        if free and node not in head_grads:
            codes.assign(Entry(node), FLOAT32)
            codes.run()


def _tie_gradients(
    state: Inference[PartialShape] | Inference[int],
    heads: Sequence[Entry],
    head_grads: Sequence[Node | None],
    grads: Mapping[str, Entry],
    arguments: Mapping[str, Node],
) -> None:
    for head, node in zip(heads, head_grads, strict=False):
        if node is not None:
            state.assign(Entry(node), state.get(head))  # type: ignore[arg-type]
    state.run()
    for name, entry in grads.items():
        state.assign(entry, state.get(Entry(arguments[name])))  # type: ignore[arg-type]
    state.run()


def _refuse_unknown(order: Sequence[Node], dims: Inference[PartialShape]) -> None:
    unknown = [
        f"{node.name}: {legacy_out(dims.get(Entry(node)))}"
        for node in order
        if node.is_variable and not complete(dims.get(Entry(node)))
    ]
    if unknown:
        raise ShapeError(
            "[bind] these shapes cannot be inferred (0 is an unknown dimension); give more: "
            + ", ".join(unknown[:20])
        )


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
