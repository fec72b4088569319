# SPDX-License-Identifier: Apache-2.0
"""What a graph has before a stranger's pass gets it, so that what the pass writes is found and undone."""

from __future__ import annotations

from collections.abc import Iterable
from operator import is_
from typing import Any

from mx_symbol.graph import Node, topological_order
from mx_symbol.graph.ir import Graph

#: attributes of nodes; what else a node has follows from them
_OF_NODES = ("op", "params", "name", "attrs", "inputs", "subgraphs", "_texts")


class Untouched:
    """A graph and its nodes as they are now, those of subgraphs included.

    Threads: belongs to the one that compiles.
    """

    def __init__(self, graph: Graph) -> None:
        nodes = _with_subgraphs(graph.whole.nodes)
        self._graph = graph
        self._values = dict(vars(graph))
        self._tables: dict[str, tuple[dict[Any, Any], dict[Any, Any]]] = {
            "specs": (graph.specs, dict(graph.specs)),
            "times": (graph.times, dict(graph.times)),
        }
        self._nodes = [_NodeAsItIs(node) for node in nodes]

    def put_back(self) -> str:
        """Undoes what was written since, and says where; the empty text where nothing was.

        Shapes and types of new nodes stay.
        """
        present = vars(self._graph)
        written = [name for name, value in self._values.items() if present.get(name) is not value]
        present.clear()
        present.update(self._values)
        present.pop("readers", None)  # a table that anybody may have written into; it is made anew
        for name, (table, kept) in self._tables.items():
            if any(table.get(key) is not value for key, value in kept.items()):
                table.update(kept)
                written.append(name)
        names = [each.node.name for each in self._nodes if each.put_back()]
        if names:
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            written.append(f"nodes {', '.join(names[:5])}{more}")
        return "; ".join(written)


class _NodeAsItIs:
    """A node as it is now."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._values = [getattr(node, name) for name in _OF_NODES]
        self._attrs, self._inputs = node.attrs, node.inputs
        self._texts, self._entries = dict(node.attrs), list(node.inputs)

    def put_back(self) -> bool:
        """Undoes what was written since; whether something was."""
        if (
            all(
                getattr(self.node, n, None) is value for n, value in zip(_OF_NODES, self._values, strict=True)
            )
            and len(self._attrs) == len(self._texts)
            and all(self._attrs.get(key) is text for key, text in self._texts.items())
            and len(self._inputs) == len(self._entries)
            and all(map(is_, self._inputs, self._entries))
        ):
            return False
        self._attrs.clear()
        self._attrs.update(self._texts)
        self._inputs[:] = self._entries
        for name, value in zip(_OF_NODES, self._values, strict=True):
            setattr(self.node, name, value)
        return True


def _with_subgraphs(nodes: Iterable[Node]) -> Iterable[Node]:
    """Nodes, and those of the graphs that they run."""
    found: dict[Node, None] = dict.fromkeys(nodes)
    waiting = list(found)
    while waiting:
        for symbol in waiting.pop().subgraphs:
            below = topological_order(entry.node for entry in symbol.entries)
            waiting.extend(node for node in below if node not in found)
            found.update(dict.fromkeys(below))
    return found
