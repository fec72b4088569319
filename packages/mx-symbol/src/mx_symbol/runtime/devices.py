# SPDX-License-Identifier: Apache-2.0
"""Model parallelism: which node of a graph runs on which device, and the copies between devices.

The groups of MXNet's `group2ctx`: a node in a group runs on the group's device, any other on the main device. Variables
that an operator makes for its missing inputs are in the group of the operator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from mx_core.context import Context
from mx_core.operator import Operator
from mx_symbol._core import FlatGraph
from mx_symbol.graph import Entry, Node, rewrite
from mx_symbol.graph.gradient import apply_plain
from mx_symbol.passes.bound_graph import BoundGraph

GROUP = "__ctx_group__"


class CrossDeviceCopy(Operator):
    """A copy on another device, put where data crosses a border between groups."""

    name = "_CrossDeviceCopy"

    def infer_shape(self, p: Any, s: Any) -> None:
        """As the input."""
        s.unify(["data", "output"])

    def gradient(self, p: Any, g: Any) -> Any:
        """The gradient goes back the same way."""
        return (g.out_grad(),)


class Devices:
    """The devices of a graph.

    Threads: belongs to the one that compiles.

    Parameters
    ----------
    graph : its nodes
    main : where everything runs that no group places
    groups : devices by name of a group
    arrays : devices of variables whose arrays are given
    """

    _copy: ClassVar[CrossDeviceCopy] = CrossDeviceCopy()

    def __init__(
        self,
        graph: FlatGraph,
        main: Context,
        groups: Mapping[str, Context],
        arrays: Mapping[str, Context] | None = None,
    ) -> None:
        self._main = main
        self._groups = dict(groups)
        self._places: dict[Node, Context] = {}
        if not groups and not arrays:
            return  # the main one computes everything
        for node in graph.nodes:
            given = (arrays or {}).get(node.name) if node.is_variable else None
            self._places[node] = self._group(node) if given is None else given

    @property
    def several(self) -> bool:
        """True when there is more than one device."""
        return len({self._main, *self._places.values()}) > 1

    def _group(self, node: Node) -> Context:
        return self._groups.get(node.attrs.get(GROUP, ""), self._main)

    def of(self, node: Node) -> Context:
        """The device of a node or a variable."""
        place = self._places.get(node)
        return self._group(node) if place is None else place

    def all(self, graph: BoundGraph) -> tuple[Context, ...]:
        """The devices of a graph, in the order in which it needs them."""
        return tuple(dict.fromkeys(self.of(node) for node in graph.schedule))

    def with_copies(self, heads: Sequence[Entry]) -> tuple[Entry, ...]:
        """The graph with a copy per value and device that needs it from elsewhere; in MXNet's names."""
        copies: dict[tuple[Entry, Context], Entry] = {}

        def near(node: Node, inputs: list[Entry]) -> list[Entry] | None:
            if node.op is None:
                return None
            made = self._near(node, inputs, copies)
            return [Entry(made, i) for i in range(node.num_outputs)]

        return rewrite(heads, near)

    def bound_with_copies(self, graph: BoundGraph, grads: Mapping[str, Context]) -> BoundGraph:
        """A graph with its gradients, with a copy before the first node on a device that needs a value from elsewhere.

        Parameters
        ----------
        grads : where the gradients lie, by argument; what is computed elsewhere gets there
        """
        graph = self._with_gradients_at(graph, grads)
        specs = dict(graph.specs)
        copies: dict[tuple[Entry, Context], Entry] = {}
        moved: dict[Node, Node] = {}
        phases: list[list[Node]] = []
        for nodes in (graph.schedule[: graph.n_forward], graph.schedule[graph.n_forward :]):
            phases.append([])
            for node in nodes:
                known = len(copies)
                inputs = [Entry(moved.get(e.node, e.node), e.index) for e in node.inputs]
                made = moved[node] = self._near(node, inputs, copies)
                for copy in list(copies.values())[known:]:
                    specs[copy] = specs[copy.node.inputs[0]]
                    phases[-1].append(copy.node)
                specs.update((Entry(made, i), specs[Entry(node, i)]) for i in range(node.num_outputs))
                phases[-1].append(made)

        def now(entry: Entry) -> Entry:
            return Entry(moved.get(entry.node, entry.node), entry.index)

        return replace(
            graph, heads=tuple(map(now, graph.heads)), schedule=(*phases[0], *phases[1]), n_forward=len(phases[0]),
            grads={name: now(entry) for name, entry in graph.grads.items()}, specs=specs,
        )  # fmt: skip

    def _with_gradients_at(self, graph: BoundGraph, places: Mapping[str, Context]) -> BoundGraph:
        """Gradients are taken on the devices of the outputs, and handed out on those of their arrays."""
        grads, extra, specs = dict(graph.grads), [], dict(graph.specs)
        for head, variable in zip(graph.heads, graph.head_grads, strict=False):
            if variable is not None:
                self._places[variable] = self.of(head.node)
        for name, entry in graph.grads.items():
            if entry.node.op is not None and entry.node.op.name in ("_copy", "zeros_like"):
                self._places[entry.node] = places[name]
            if self.of(entry.node) == places[name]:
                continue
            own = apply_plain("_copy", (entry,), f"{name}_grad_here")
            specs[own] = specs[entry]
            self._places[own.node] = places[name]
            grads[name] = own
            extra.append(own.node)
        return replace(graph, schedule=(*graph.schedule, *extra), grads=grads, specs=specs)

    def _near(self, node: Node, inputs: list[Entry], copies: dict[tuple[Entry, Context], Entry]) -> Node:
        """A node that reads values of its own device, which adds to the copies."""
        place = self.of(node)
        near = [
            entry if self.of(entry.node) == place else self._copied(entry, place, copies) for entry in inputs
        ]
        made = node if near == node.inputs else node.copy(near)
        self._places[made] = place
        return made

    def _copied(self, entry: Entry, place: Context, copies: dict[tuple[Entry, Context], Entry]) -> Entry:
        found = copies.get((entry, place))
        if found is None:
            params = self._copy.Param.parse({}, op=self._copy.name)
            name = f"{entry.node.name}_{entry.index}_copy"
            found = copies[entry, place] = Entry(Node(self._copy, params, name, None, (entry,)))
            self._places[found.node] = place
        return found


def is_copy(node: Node) -> bool:
    """True for a copy between devices."""
    return isinstance(node.op, CrossDeviceCopy)
