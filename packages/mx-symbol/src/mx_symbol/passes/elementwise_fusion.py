# SPDX-License-Identifier: Apache-2.0
"""Elementwise fusion: neighbours become one expression, which one kernel computes in one pass.

Groups grow greedily along data flow, as loop fusion over a dependence graph (Kennedy and McKinley, 1993):
a node joins the group of one of its inputs if that group's results have its shape and no path leaves the
group and comes back. Forward and backward nodes stay apart, since they run apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from mx_core import dtypes
from mx_core.expression import Builder, Opcode, Traced
from mx_core.graph import PREPARED
from mx_core.operator.simple import Elementwise
from mx_core.operator.tracing import expression_of
from mx_symbol._core import fusion_groups
from mx_symbol.graph import Entry, Node
from mx_symbol.graph.facts import Facts
from mx_symbol.graph.ir import Graph
from mx_symbol.passes.fused_elementwise import FUSED, FusedParams

#: inputs, outputs and values of one kernel; within them nothing is allocated when it runs
MOST_INPUTS, MOST_OUTPUTS, MOST_VALUES = 12, 8, 48
#: nodes between the first and the last of a group: what a group reads lives until the last of it would have run, so a
#: sum of gradients over many steps in one kernel would keep them all
MOST_SPAN = 32
#: nodes looked at when a path back into a group is searched; beyond it the group does not grow
SEARCH_LIMIT = 64

_SINGLE = frozenset(dtypes.code(name) for name in ("float32", "float16", "bfloat16"))
_DOUBLE = frozenset((dtypes.code("float64"),))


def fuse(graph: Graph) -> Graph:
    """Neighbouring elementwise operators of one shape become `_fused` nodes."""
    known: dict[
        int, FusedParams | None
    ] = {}  # deep networks repeat themselves, so groups of one structure share it
    mapping: dict[Entry, Entry] = {}
    for group in _groups(graph):
        if group.structure not in known:
            known[group.structure] = _params(graph, group)
        params = known[group.structure]
        if params is None:
            continue  # each alone may have a kernel where all together have none
        last = group.members[-1]
        attrs = {k: v for k, v in last.attrs.items() if k in ("__ctx_group__", PREPARED)}
        read = [mapping.get(entry, entry) for entry in group.inputs]  # of the nodes that are there already
        made = Node(FUSED, params, last.name, attrs, read)
        for i, entry in enumerate(group.outputs):
            mapping[entry] = new = Entry(made, i)
            graph.specs[new] = graph.specs[entry]
    return graph.replace(mapping)


class _Group(NamedTuple):
    """Nodes that become one.

    Attributes
    ----------
    structure : a number; groups that compute the same of values of the same shapes and types have the same
    members : in the order in which they run
    inputs, outputs : what they read from outside, and what is read of them outside
    """

    structure: int
    members: list[Node]
    inputs: list[Entry]
    outputs: list[Entry]


def _groups(graph: Graph) -> Iterator[_Group]:
    """Groups of more than one node, none of which waits for itself."""
    numbers: dict[object, int] = {}

    def kind(node: Node) -> int:
        """Nodes of one kind may share a kernel; of none, −1."""
        computed = _computed(graph, node)
        place = (node.attrs.get("__ctx_group__"), PREPARED in node.attrs)
        key = (computed, node in graph.forward, place)
        return -1 if computed is None else numbers.setdefault(key, len(numbers))

    found = fusion_groups(
        graph.flat, graph.specs, graph.forward, _values, kind, list(graph.heads),
        (MOST_INPUTS, MOST_OUTPUTS, MOST_VALUES), MOST_SPAN, SEARCH_LIMIT,
    )  # fmt: skip
    return itertools.starmap(_Group, found)


def _computed(graph: Graph, node: Node) -> object:
    """The precision and the shape that a node is computed in; None if it may not be fused."""
    outputs = [graph.specs[entry] for entry in graph.outputs_of(node)]
    if any(spec.shape != outputs[0].shape for spec in outputs):
        return None
    types = {spec.dtype for spec in outputs} | {graph.specs[entry].dtype for entry in node.inputs}
    precision = "single" if types <= _SINGLE else "double" if types <= _DOUBLE else None
    return None if precision is None else (precision, outputs[0].shape)


def _values(facts: Facts) -> int:
    """How many values an operator adds to a kernel; 0 if it cannot be part of one."""
    op, params = facts.op, facts.params
    if not isinstance(op, Elementwise) or facts.mutated or op.is_random:
        return 0
    e = expression_of(op, params)
    return 0 if e is None else e.n_scalars + len(e.constants) + len(e.instructions) + len(e.outputs)


def _params(graph: Graph, group: _Group) -> FusedParams | None:
    """The parameters of the fused operator, or None without a kernel for it."""
    members, inputs, outputs = group.members, group.inputs, group.outputs
    scalars = [s for node in members if node.params is not None for s in node.params.scalars]
    builder = Builder(len(inputs), len(scalars))
    values = {entry: builder.input(i) for i, entry in enumerate(inputs)}
    n_scalars = 0
    for node in members:
        n_scalars = _inline(graph, node, builder, values, n_scalars)
    expression = builder.finish([values[entry] for entry in outputs])
    types = [graph.specs[entry].dtype for entry in outputs]
    names = [node.op.name for node in members if node.op is not None]
    params = FusedParams(expression, scalars, types, names)
    read, written = [graph.specs[entry] for entry in inputs], [graph.specs[entry] for entry in outputs]
    return params if graph.has_kernel(FUSED, params, read, written) else None


def _inline(graph: Graph, node: Node, builder: Builder, values: dict[Entry, Traced], n_scalars: int) -> int:
    """Writes a node's expression down after the others; returns the number of scalars used so far."""
    assert isinstance(node.op, Elementwise) and node.params is not None
    expression = expression_of(node.op, node.params)
    assert expression is not None  # else it is in no group
    local = [values[entry] for entry in node.inputs]
    local += [builder.scalar(n_scalars + i) for i in range(expression.n_scalars)]
    local += [builder.constant(c) for c in expression.constants]
    for step in expression.instructions:
        local.append(builder.emit(step.opcode, *(local[v] for v in step.operands), argument=step.argument))
    for i, value in enumerate(expression.outputs):
        entry = Entry(node, i)
        code = graph.specs[entry].dtype
        rounded = code in _SINGLE and dtypes.name(code) != "float32"
        result = local[value]
        # What would have been stored in 16 bits is rounded as if it were.
        values[entry] = builder.emit(Opcode.CAST, result, argument=code) if rounded else result
    return n_scalars + expression.n_scalars
