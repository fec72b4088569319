# SPDX-License-Identifier: Apache-2.0
"""Gradients as data: operator applications over out-gradients, inputs and outputs.

One description serves the autograd tape, which replays it, and the gradient graph, which inserts
it; since it consists of operators it can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from mx_core.errors import MXNetError

if TYPE_CHECKING:
    from mx_core.operator.params import Params
    from mx_core.operator.property import OperatorProperty

Kind = Literal["out_grad", "input", "output", "node"]


class Entry(NamedTuple):
    """A value of the gradient computation.

    `index` counts out-gradients, inputs (auxiliary states last), outputs or nodes; `output` is
    the node's output and 0 otherwise.
    """

    kind: Kind
    index: int  # type: ignore[assignment]  # tuple.index is of no use here
    output: int = 0


@dataclass(frozen=True)
class GradNode:
    """One operator application."""

    op: str
    params: Params
    inputs: tuple[Entry, ...]


@dataclass(frozen=True)
class Gradient:
    """The gradient of an operator with given parameters.

    Attributes
    ----------
    nodes : in an order in which they can run
    grads : per input (auxiliary states not included) the entry of its gradient, or None for zero
    reads : the entries of kind out_grad, input and output that are used: what must be kept
    shape_reads : those of `reads` of which only shape and type are used
    """

    nodes: tuple[GradNode, ...]
    grads: tuple[Entry | None, ...]
    reads: frozenset[Entry]
    shape_reads: frozenset[Entry]

    @property
    def is_zero(self) -> bool:
        """True when no input has a gradient."""
        return all(grad is None for grad in self.grads)


class GradientBuilder:
    """Handed to `OperatorProperty.gradient`."""

    def __init__(self, op: OperatorProperty, p: Params) -> None:
        self._op = op
        self._p = p
        self._nodes: list[GradNode] = []

    def out_grad(self, i: int = 0) -> Entry:
        """Gradient with respect to output i."""
        return Entry("out_grad", i)

    def input(self, i: int) -> Entry:
        """Input i (auxiliary states follow the inputs)."""
        return Entry("input", i)

    def output(self, i: int = 0) -> Entry:
        """Output i, hidden ones included."""
        return Entry("output", i)

    def op(
        self, name: str, inputs: Sequence[Entry], params: Params | None = None, **attrs: Any
    ) -> tuple[Entry, ...]:
        """Applies operator `name`; returns its outputs, hidden ones included.

        `params` passes a parameter instance on, else `attrs` are parsed by the operator.
        """
        from mx_core import operators

        op = operators.get(name)
        p = op.Param.parse(attrs, op=name) if params is None else params
        index = len(self._nodes)
        self._nodes.append(GradNode(op.name, p, tuple(inputs)))
        return tuple(Entry("node", index, i) for i in range(len(op.outputs(p))))

    def finish(self, grads: Sequence[Entry | None] | None) -> Gradient:
        """Checks the result of the rule and drops nodes nothing needs."""
        n = len(self._op.inputs(self._p))
        if grads is None:
            grads = [None] * n
        if len(grads) != n:
            raise MXNetError(f"[{self._op.name}] gradient gives {len(grads)} entries for {n} inputs")
        live: set[int] = set()
        stack = [g.index for g in grads if g is not None and g.kind == "node"]
        while stack:
            index = stack.pop()
            if index not in live:
                live.add(index)
                stack += [e.index for e in self._nodes[index].inputs if e.kind == "node"]
        order = sorted(live)
        renumber = {old: new for new, old in enumerate(order)}

        def moved(entry: Entry | None) -> Entry | None:
            if entry is None or entry.kind != "node":
                return entry
            return entry._replace(index=renumber[entry.index])

        nodes = tuple(
            GradNode(node.op, node.params, tuple(moved(e) for e in node.inputs))  # type: ignore[misc]
            for node in (self._nodes[i] for i in order)
        )
        final = tuple(moved(g) for g in grads)
        values, shapes = _reads(nodes, final)
        return Gradient(nodes, final, values | shapes, shapes - values)


def _reads(
    nodes: Sequence[GradNode], grads: Sequence[Entry | None]
) -> tuple[frozenset[Entry], frozenset[Entry]]:
    from mx_core import operators

    values = {g for g in grads if g is not None and g.kind != "node"}
    shapes: set[Entry] = set()
    for node in nodes:
        shape_only = operators.get(node.op).shape_only_inputs
        for i, entry in enumerate(node.inputs):
            if entry.kind != "node":
                (shapes if i in shape_only else values).add(entry)
    return frozenset(values), frozenset(shapes)


@lru_cache(maxsize=4096)
def _cached(op: OperatorProperty, p: Params) -> Gradient:
    from mx_core.operator.refusal import lacks_gradient, refusal

    builder = GradientBuilder(op, p)
    return builder.finish(refusal(op, p, builder) if lacks_gradient(op) else op.gradient(p, builder))


def gradient_of(op: OperatorProperty, p: Params) -> Gradient:
    """The gradient of `op` with parameters `p`; cached."""
    return _cached(op, p)
