# SPDX-License-Identifier: Apache-2.0
"""The gradient graph: backward operators inserted from the operators' gradients as data.

Reverse accumulation over the forward graph (Griewank and Walther, Evaluating Derivatives, 2008,
chapter 3). A loss has its gradient wherever in the graph it is and does not read its head gradient, also
after an operator without gradient, as in MXNet. Contributions to one entry are summed; a gradient
that is zero is never materialised, except where an operator with several outputs reads the gradient
of an unused one. A gradient that only copies is passed on as it is. Only what the asked-for
gradients need is made, so branches to other arguments cost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from mx_core import operators
from mx_core.errors import ArgumentError
from mx_core.operator import Entry as Term
from mx_core.operator import Operator, Params
from mx_core.operator.derivative import BackwardOp
from mx_symbol._core import FlatGraph, gradient
from mx_symbol.graph import Entry, Node, topological_order
from mx_symbol.graph.facts import Facts

#: an entry with this many readers sums its gradient as the parts come, so that few are alive at a time
CHAIN_FROM = 8

#: what a gradient is computed from: (kind, number, output), the kinds being numbered as in csrc/bindings_gradient.cc
Value: TypeAlias = tuple[int, int, int]
#: outputs whose gradients are read; nodes (operator, parameters, suffix of the name, inputs); gradients of the inputs
Recipe: TypeAlias = tuple[
    tuple[int, ...],
    tuple[tuple[Operator, Params, str, tuple[Value, ...]], ...],
    tuple[Value | None, ...],
]
_KINDS = {"out_grad": 0, "input": 1, "output": 2, "node": 3}
_NODE_INPUT = 4
#: the attribute that gradients take over
_GROUP = "__ctx_group__"


@dataclass(frozen=True)
class GradientGraph:
    """What differentiation yields.

    Attributes
    ----------
    grads : per asked-for variable the entry of its gradient, or None for zero
    nodes : the new nodes in the order they were made, in which they can run: the nodes of one
        forward node stay together, so that what it kept alive is released early
    """

    grads: tuple[Entry | None, ...]
    nodes: tuple[Node, ...]


def gradient_graph(
    heads: Sequence[Entry],
    head_grads: Sequence[Entry | None],
    variables: Sequence[Node],
    whole: FlatGraph | None = None,
) -> GradientGraph:
    """Gradients of Σ headᵢ · head_gradᵢ.

    Parameters
    ----------
    heads : outputs of the forward graph
    head_grads : one per head; None is zero
    variables : what to differentiate by
    whole : all nodes that the heads need, inputs before users, where they are at hand
    """
    graph = FlatGraph(topological_order(entry.node for entry in heads)) if whole is None else whole

    def zeros(like: Entry) -> Node:
        return _made("zeros_like", (like,), like.node, "_zero_grad")

    def total(entry: Entry, parts: list[Entry]) -> Node:
        variadic = operators.get("add_n").variadic
        values = {variadic: len(parts)} if variadic else {}
        return _made("add_n", parts, entry.node, "_sum_grad", **values)

    grads, nodes = gradient(
        graph, list(heads), list(head_grads), list(variables), Node, _GROUP,
        (operators.get("_grad_add"), _no_params("_grad_add")), zeros, total, _recipe, CHAIN_FROM,
    )  # fmt: skip
    return GradientGraph(tuple(grads), tuple(nodes))


def gradient_symbol(heads: Sequence[Entry], names: Sequence[str]) -> tuple[Entry, ...]:
    """Gradients of the sum of all heads by variables given by name, zeros included."""
    table = {node.name: node for node in topological_order(entry.node for entry in heads) if node.is_variable}
    for name in names:
        if name not in table:
            raise ArgumentError(f"[gradient] no argument is named {name!r}: {', '.join(table)}")
    ones = [apply_plain("ones_like", (entry,), f"{entry.name}_ones") for entry in heads]
    variables = [table[name] for name in names]
    found = gradient_graph(heads, ones, variables).grads
    return tuple(
        grad or apply_plain("zeros_like", (Entry(node),), f"{node.name}_zeros")
        for grad, node in zip(found, variables, strict=True)
    )


def apply_plain(op: str, inputs: Sequence[Entry], name: str, **values: object) -> Entry:
    """First output of an operator application outside the automatic naming."""
    found = operators.get(op)
    params = found.Param.parse(values, op=op) if values else _no_params(op)
    return Entry(Node(found, params, name, None, inputs), 0)


def _no_params(op: str) -> Params:
    params: Params = operators.get(op).Param.parse({}, op=op)
    return params


def _made(op: str, inputs: Sequence[Entry], forward: Node, suffix: str, **values: object) -> Node:
    """A node of the gradient of another."""
    attrs = {_GROUP: forward.attrs[_GROUP]} if _GROUP in forward.attrs else None
    made = apply_plain(op, inputs, forward.name + suffix, **values).node
    return Node(made.op, made.params, made.name, attrs, inputs)


def _recipe(facts: Facts) -> Recipe | None:
    """The gradient of an operator as the native part takes it; None where no input has one."""
    gradient = facts.gradient
    if gradient.is_zero:
        return None
    nodes = [operators.get(step.op) for step in gradient.nodes]
    copied = [_copied(op, step.params) for op, step in zip(nodes, gradient.nodes, strict=True)]

    def value(term: Term) -> Value:
        if term.kind == "node" and term.output in copied[term.index]:
            return (_NODE_INPUT, term.index, copied[term.index][term.output])
        return (_KINDS[term.kind], term.index, term.output)

    suffixes = ["_backward"] if len(nodes) == 1 else [f"_backward{i}" for i in range(len(nodes))]
    steps = tuple(
        (op, step.params, suffix, tuple(map(value, step.inputs)))
        for op, step, suffix in zip(nodes, gradient.nodes, suffixes, strict=True)
    )
    return tuple(facts.read_out_grads), steps, tuple(term and value(term) for term in gradient.grads)


def _copied(op: Operator, params: Params) -> dict[int, int]:
    """Outputs of an elementwise gradient that are mere copies of an input, as in that of a sum, and which input."""
    if not isinstance(op, BackwardOp) or op.broadcast:
        return {}
    expression = op.expression(params)
    return {o: value for o, value in enumerate(expression.outputs) if value < expression.n_inputs}
