# SPDX-License-Identifier: Apache-2.0
"""The gradient graph: backward operators inserted from the operators' gradients as data.

Reverse accumulation over the forward graph (Griewank and Walther, Evaluating Derivatives, 2008,
chapter 3). A loss has its gradient wherever in the graph it is, whatever comes back to it, also
behind an operator without gradient, as in MXNet. Contributions to one entry are summed; a gradient
that is zero is never materialised, except where an operator with several outputs reads the gradient
of an unused one. A gradient that only copies is passed on as it is. Only what the asked-for
gradients need is made, so branches to other arguments cost nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from mx_core import operators
from mx_core.errors import ArgumentError
from mx_core.operator import Entry as Term
from mx_core.operator import Operator, Params
from mx_core.operator.derivative import BackwardOp
from mx_symbol.graph import Entry, Node, topological_order

#: an entry with this many readers sums its gradient as the parts come, so that few are alive at a time
CHAIN_FROM = 8


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
    heads: Sequence[Entry], head_grads: Sequence[Entry | None], variables: Sequence[Node]
) -> GradientGraph:
    """Gradients of Σ headᵢ · head_gradᵢ.

    Parameters
    ----------
    heads : outputs of the forward graph
    head_grads : one per head; None is zero
    variables : what to differentiate by
    """
    return _Backward(heads, variables).run(heads, head_grads)


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


def _shortcut(entry: Entry) -> Entry:
    """The input that an output of an elementwise gradient is a mere copy of, as in that of a sum."""
    op, params = entry.node.op, entry.node.params
    if not isinstance(op, BackwardOp) or op.broadcast or params is None:
        return entry
    expression = op.expression(params)
    value = expression.outputs[entry.index]
    return entry.node.inputs[value] if value < expression.n_inputs else entry


class _Backward:
    def __init__(self, heads: Sequence[Entry], variables: Sequence[Node]) -> None:
        self._order = topological_order(entry.node for entry in heads)
        self._variables = variables
        self._contributions: dict[Entry, list[Entry]] = {}
        self._made: list[Node] = []
        self._operators: dict[str, Operator] = {}
        self._plain: dict[str, Params] = {}  # of operators that are applied without parameters
        self._useful = set(variables)
        self._readers: Counter[Entry] = Counter()
        for node in self._order:
            if any(entry.node in self._useful for entry in node.inputs):
                self._useful.add(node)
                self._readers.update(node.inputs)

    def run(self, heads: Sequence[Entry], head_grads: Sequence[Entry | None]) -> GradientGraph:
        for head, grad in zip(heads, head_grads, strict=True):
            if grad is not None:
                self._contribute(head, grad)
        for node in reversed(self._order):
            if node.op is not None and node in self._useful:
                self._differentiate(node)
        grads = tuple(self._sum(Entry(variable)) for variable in self._variables)
        needed = set(topological_order(grad.node for grad in grads if grad is not None))
        return GradientGraph(grads, tuple(node for node in self._made if node in needed))

    def _contribute(self, entry: Entry, grad: Entry) -> None:
        parts = self._contributions.setdefault(entry, [])
        if parts and self._readers[entry] >= CHAIN_FROM:
            parts[0] = Entry(self._node("_grad_add", (parts[0], grad), entry.node, "_sum_grad"))
        else:
            parts.append(grad)

    def _differentiate(self, node: Node) -> None:
        facts = node.facts
        gradient = facts.gradient
        if gradient.is_zero:
            return
        incoming = [self._sum(Entry(node, i)) for i in range(node.num_outputs)]
        read = facts.read_out_grads
        if read and all(incoming[i] is None for i in read):
            return  # gradients are linear in the out-gradients; those of losses do not depend on them
        made: list[Node] = []

        def entry(term: Term) -> Entry:
            if term.kind == "node":
                return _shortcut(Entry(made[term.index], term.output))
            if term.kind == "input":
                return node.inputs[term.index]
            if term.kind == "output":
                return Entry(node, term.index)
            grad = incoming[term.index]
            if grad is None:
                grad = incoming[term.index] = self._zero(Entry(node, term.index))
            return grad

        for i, step in enumerate(gradient.nodes):
            suffix = "_backward" if len(gradient.nodes) == 1 else f"_backward{i}"
            made.append(self._node(step.op, [entry(term) for term in step.inputs], node, suffix, step.params))
        for target, term in zip(node.inputs, gradient.grads, strict=False):
            if term is not None and target.node in self._useful:
                self._contribute(target, entry(term))

    def _node(
        self, op: str, inputs: Sequence[Entry], forward: Node, suffix: str, params: Params | None = None
    ) -> Node:
        attrs = {k: v for k, v in forward.attrs.items() if k == "__ctx_group__"} if forward.attrs else None
        if op not in self._operators:
            self._operators[op] = operators.get(op)
        if params is None:
            params = self._plain.get(op)
            if params is None:
                params = self._plain[op] = _no_params(op)
        made = Node(self._operators[op], params, forward.name + suffix, attrs, inputs)
        self._made.append(made)
        return made

    def _zero(self, like: Entry) -> Entry:
        return Entry(self._node("zeros_like", (like,), like.node, "_zero_grad"))

    def _sum(self, entry: Entry) -> Entry | None:
        """The whole gradient of an entry; called once, when all its users are done."""
        parts = self._contributions.pop(entry, [])
        if not parts:
            return None
        if len(parts) == 1:
            return parts[0]
        op = operators.get("add_n")
        params = op.Param.parse({op.variadic: len(parts)} if op.variadic else {}, op="add_n")
        return Entry(self._node("add_n", parts, entry.node, "_sum_grad", params))
