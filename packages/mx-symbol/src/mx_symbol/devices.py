# SPDX-License-Identifier: Apache-2.0
"""Model parallelism: which node of a graph runs on which device, and the copies between devices.

The groups of MXNet's `group2ctx`: a node in a group runs on the group's device, any other on the main device. Variables
that an operator makes for its missing inputs are in the group of the operator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from mx_core.context import Context
from mx_core.operator import OperatorProperty
from mx_symbol.graph import Entry, Node, rewrite, topological_order

GROUP = "__ctx_group__"


class CrossDeviceCopy(OperatorProperty):
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

    Parameters
    ----------
    heads : outputs
    main : where everything runs that no group places
    groups : devices by name of a group
    arrays : devices of variables whose arrays are given
    """

    _copy: ClassVar[CrossDeviceCopy] = CrossDeviceCopy()

    def __init__(
        self,
        heads: Sequence[Entry],
        main: Context,
        groups: Mapping[str, Context],
        arrays: Mapping[str, Context] | None = None,
    ) -> None:
        self._main = main
        self._places: dict[Node, Context] = {}
        for node in topological_order(entry.node for entry in heads):
            given = (arrays or {}).get(node.name) if node.is_variable else None
            self._places[node] = groups.get(node.attrs.get(GROUP, ""), main) if given is None else given

    @property
    def several(self) -> bool:
        """True when there is more than one device."""
        return len({self._main, *self._places.values()}) > 1

    def of(self, node: Node) -> Context:
        """The device of a node or a variable."""
        return self._places.get(node, self._main)

    def with_copies(self, heads: Sequence[Entry]) -> tuple[Entry, ...]:
        """The graph with a copy per value and device that needs it from elsewhere; in MXNet's names."""
        copies: dict[tuple[Entry, Context], Entry] = {}

        def near(node: Node, inputs: list[Entry]) -> list[Entry] | None:
            if node.op is None:
                return None
            place = self.of(node)
            moved = [entry if self.of(entry.node) == place else copied(entry, place) for entry in inputs]
            made = node if moved == node.inputs else node.copy(moved)
            self._places[made] = place
            return [Entry(made, i) for i in range(node.num_outputs)]

        def copied(entry: Entry, place: Context) -> Entry:
            found = copies.get((entry, place))
            if found is None:
                params = self._copy.Param.parse({}, op=self._copy.name)
                name = f"{entry.node.name}_{entry.index}_copy"
                found = copies[entry, place] = Entry(Node(self._copy, params, name, None, (entry,)))
                self._places[found.node] = place
            return found

        return rewrite(heads, near)


def is_copy(node: Node) -> bool:
    """True for a copy between devices."""
    return isinstance(node.op, CrossDeviceCopy)
