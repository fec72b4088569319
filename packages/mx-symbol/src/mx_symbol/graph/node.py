# SPDX-License-Identifier: Apache-2.0
"""The graph: nodes and entries, and walks over them that never recurse."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from mx_symbol import _core
from mx_symbol.graph.facts import Facts, facts_of

if TYPE_CHECKING:
    from mx_core.operator import Operator, Params
    from mx_symbol.symbol import Symbol

_NOTHING: frozenset[int] = frozenset()


class Node:
    """A variable (`op` is None) or one application of an operator.

    Threads: any may read it; attributes are set by one at a time.

    Attributes
    ----------
    op : the operator, or None
    params : its parameters; None for a variable
    name : unique within a graph by convention, not by force
    attrs : texts that are no parameters: `__shape__`, `__lr_mult__`, `__ctx_group__`
    inputs : entries in declaration order, auxiliary states last
    subgraphs : graphs a control-flow operator runs
    """

    __slots__ = (
        "__weakref__",
        "_asked",
        "_facts",
        "_texts",
        "attrs",
        "inputs",
        "name",
        "op",
        "params",
        "subgraphs",
    )

    def __init__(
        self,
        op: Operator | None,
        params: Params | None,
        name: str,
        attrs: dict[str, str] | None = None,
        inputs: Iterable[Entry] = (),
        subgraphs: Sequence[Symbol] = (),
    ) -> None:
        self.op = op
        self.params = params
        self.name = name
        self.attrs: dict[str, str] = {} if attrs is None else attrs
        self.inputs: list[Entry] = list(inputs)
        self.subgraphs = tuple(subgraphs)
        self._asked: Params | None = None  # the parameters that the facts are of
        self._texts: tuple[Params | None, Mapping[str, str]] = (None, {})

    @property
    def is_variable(self) -> bool:
        """True when nothing computes it."""
        return self.op is None

    @property
    def num_outputs(self) -> int:
        """Outputs, hidden ones included."""
        return 1 if self.op is None else len(self.facts.outputs)

    @property
    def num_visible_outputs(self) -> int:
        """Outputs a caller sees."""
        return 1 if self.op is None else self.facts.n_visible

    @property
    def input_names(self) -> tuple[str, ...]:
        """Declared names of the inputs, auxiliary states last."""
        return () if self.op is None else self.facts.inputs

    @property
    def mutated(self) -> frozenset[int]:
        """Positions of the inputs that running the node writes: auxiliary and optimizer states."""
        return _NOTHING if self.op is None else self.facts.mutated

    def output_name(self, index: int) -> str:
        """Name of one output: the variable's own, or `conv0_output`."""
        if self.op is None:
            return self.name
        return f"{self.name}_{self.facts.outputs[index]}"

    @property
    def facts(self) -> Facts:
        """What the declaration says of the operator with these parameters. Not for variables."""
        if self._asked is not self.params:
            assert self.op is not None and self.params is not None
            self._facts = facts_of(self.op, self.params)
            self._asked = self.params
        return self._facts

    def attributes(self) -> dict[str, str]:
        """Explicitly given parameters as text, as they were given if that is known, then the other attributes."""
        given = {} if self.params is None else self.params.attrs()
        params, texts = self._texts
        if params is self.params:
            given = {name: texts.get(name, text) for name, text in given.items()}
        return given | self.attrs

    def set_texts(self, texts: Mapping[str, str]) -> None:
        """How the present parameters were given, where that differs from how they would be written: `2.0`, not `2`."""
        self._texts = (self.params, texts)

    def copy(self, inputs: Iterable[Entry] | None = None) -> Node:
        """The same application, by default on the same inputs."""
        taken = self.inputs if inputs is None else inputs
        made = Node(self.op, self.params, self.name, dict(self.attrs), taken, self.subgraphs)
        made._texts = self._texts
        if self._asked is not None:
            made._asked, made._facts = self._asked, self._facts
        return made

    def __repr__(self) -> str:
        return f"<{'variable' if self.op is None else self.op.name} {self.name!r}>"


class Entry(NamedTuple):
    """Output `index` of a node."""

    node: Node
    index: int = 0  # type: ignore[assignment]  # also a method of tuple

    @property
    def name(self) -> str:
        """Name of this output."""
        return self.node.output_name(self.index)


def topological_order(heads: Iterable[Node]) -> list[Node]:
    """Every node the heads need, inputs before users.

    Depth first in the order of heads and inputs, which is the order in which MXNet numbers the
    nodes of a file and lists arguments.
    """
    return _core.topological_order(heads)


def rewrite(
    heads: Sequence[Entry], replace: Callable[[Node, list[Entry]], Sequence[Entry] | None]
) -> tuple[Entry, ...]:
    """A new graph in which some nodes are replaced; the old one stays as it is.

    Parameters
    ----------
    replace : function of (node, its inputs in the new graph)
        The entries that stand for the node's outputs, or None to keep the node (copied if its
        inputs changed).
    """
    moved: dict[Node, Sequence[Entry]] = {}
    for node in topological_order(entry.node for entry in heads):
        inputs = [moved[entry.node][entry.index] for entry in node.inputs]
        outputs = replace(node, inputs)
        if outputs is None:
            kept = node if inputs == node.inputs else node.copy(inputs)
            outputs = [Entry(kept, i) for i in range(node.num_outputs)]
        moved[node] = outputs
    return tuple(moved[entry.node][entry.index] for entry in heads)


def copy_graph(heads: Sequence[Entry]) -> tuple[Entry, ...]:
    """A copy that shares nothing mutable with the original."""

    def duplicate(node: Node, inputs: list[Entry]) -> list[Entry]:
        new = node.copy(inputs)
        return [Entry(new, i) for i in range(node.num_outputs)]

    return rewrite(heads, duplicate)


def auxiliary_variables(order: Iterable[Node]) -> set[Node]:
    """The variables that some node writes."""
    return {
        node.inputs[i].node
        for node in order
        if node.op is not None
        for i in node.facts.mutated
        if i < len(node.inputs) and node.inputs[i].node.is_variable
    }
