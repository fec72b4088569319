# SPDX-License-Identifier: Apache-2.0
"""Gradients as data: operator applications over out-gradients, inputs and outputs.

One description serves the autograd tape, which replays it, and the gradient graph, which inserts
it; since it consists of operators it can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from mx_core.errors import MXNetError

if TYPE_CHECKING:
    from mx_core.operator.declaration import Operator
    from mx_core.operator.params import Params

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


#: what `gradient` returns: entries by name of the input, or one per input; None, and an input left out, is zero
Gradients: TypeAlias = "Mapping[str, Entry] | Sequence[Entry | None] | None"


class GradientBuilder:
    """Handed to `Operator.gradient`: names the tensors of the operator and applies operators to them."""

    def __init__(self, op: Operator[Any], p: Params) -> None:
        self._op = op
        self._p = p
        self._nodes: list[GradNode] = []

    def out_grad(self, name: str | None = None) -> Entry:
        """Gradient with respect to the output of a name; by default the first."""
        return Entry("out_grad", self._index(self._op.outputs(self._p), name))

    def input(self, name: str) -> Entry:
        """The input or auxiliary state of a name."""
        return Entry("input", self._index((*self._op.inputs(self._p), *self._op.aux(self._p)), name))

    def output(self, name: str | None = None) -> Entry:
        """The output of a name, hidden ones included; by default the first."""
        return Entry("output", self._index(self._op.outputs(self._p), name))

    @property
    def out_grads(self) -> tuple[Entry, ...]:
        """Gradients with respect to the visible outputs."""
        return tuple(Entry("out_grad", i) for i in range(self._op.num_visible_outputs(self._p)))

    @property
    def inputs(self) -> tuple[Entry, ...]:
        """The inputs, without auxiliary states."""
        return tuple(Entry("input", i) for i in range(len(self._op.inputs(self._p))))

    def _index(self, names: Sequence[str], name: str | None) -> int:
        if name is None:
            return 0
        if name not in names:
            raise MXNetError(f"[{self._op.name}] gradient: expected one of {', '.join(names)}, got {name!r}")
        return list(names).index(name)

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

    def backward(self) -> dict[str, Entry]:
        """Applies the backward operator that is made of `backward`; its results by name of the input."""
        from mx_core.operator import kept_values

        entries = [tensor.entry for tensor in kept_values.tensors(self._op, self._p)]
        made = self.op(self._op.backward_name, entries, params=self._p)
        return dict(zip(self._op.differentiable_inputs(self._p), made, strict=True))

    def linear(self) -> dict[str, Entry]:
        """The gradient of the backward operator of a linear operator: the operator itself, of the new out-gradients."""
        forward = self._forward()
        names = forward.differentiable_inputs(self._p)
        inputs = [
            self.out_grad(f"{name}_grad") if name in names else self.input(name)
            for name in forward.inputs(self._p)
        ]
        return {"out_grad": self.op(forward.name, inputs, params=self._p)[0]}

    def not_differentiable(self) -> Sequence[Entry | None]:
        """A gradient that is an error where it is needed, for derivatives that are not offered."""
        from mx_core.operator.refusal import refusal

        return refusal(self._op, self._p, self)

    def _forward(self) -> Operator[Any]:
        if self._op.backward_of is None:
            raise MXNetError(f"[{self._op.name}] is not a backward operator")
        return self._op.backward_of

    def finish(self, given: Gradients) -> Gradient:
        """Checks the result of the rule and drops nodes nothing needs."""
        names = self._op.inputs(self._p)
        n = len(names)
        if isinstance(given, Mapping):
            for name in given:
                self._index(names, name)
            grads: Sequence[Entry | None] = [given.get(name) for name in names]
        else:
            grads = [None] * n if given is None else given
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

        def moved(entry: Entry) -> Entry:
            return entry._replace(index=renumber[entry.index]) if entry.kind == "node" else entry

        nodes = tuple(
            GradNode(node.op, node.params, tuple(map(moved, node.inputs)))
            for node in (self._nodes[i] for i in order)
        )
        final = tuple(None if g is None else moved(g) for g in grads)
        values, shapes = _reads(nodes, final)
        return Gradient(nodes, final, values | shapes, shapes - values)


def _reads(
    nodes: Sequence[GradNode], grads: Sequence[Entry | None]
) -> tuple[frozenset[Entry], frozenset[Entry]]:
    from mx_core import operators

    values = {g for g in grads if g is not None and g.kind != "node"}
    shapes: set[Entry] = set()
    for node in nodes:
        shape_only = operators.get(node.op).shape_only_inputs(node.params)
        for i, entry in enumerate(node.inputs):
            if entry.kind != "node":
                (shapes if i in shape_only else values).add(entry)
    return frozenset(values), frozenset(shapes)


@lru_cache(maxsize=4096)
def gradient_of(op: Operator[Any], p: Params) -> Gradient:
    """The gradient of `op` with parameters `p`; cached."""
    builder = GradientBuilder(op, p)
    return builder.finish(op.gradient(p, builder))
