# SPDX-License-Identifier: Apache-2.0
"""Strides of pointwise convolutions move to the layer before, so values that they skip are not computed.

If all readers of a value are 1x1 convolutions with the same stride, as between the stages of a residual
network, the convolution that makes the value takes that stride, and they lose theirs. Elementwise operators and
normalisations by known statistics in between are passed; what else they read is thinned out.
"""

from __future__ import annotations

from typing import Any

from mx_core.operator.simple import Elementwise
from mx_core.operator.tracing import expression_of
from mx_symbol.graph import Entry, Node
from mx_symbol.graph.ir import Graph, changed

Steps = tuple[int, ...]
_FIRST = (None, "NCHW")


def move_strides(graph: Graph) -> Graph:
    """Moves strides to the layers that make the values."""
    wanted = _wanted(graph)
    return _Thinned(graph, wanted).run() if wanted else graph


def _wanted(graph: Graph) -> dict[Node, Steps]:
    """Nodes of whose output only every n-th position is read and could be computed alone, with n per axis."""
    wanted: dict[Node, Steps] = {}
    for node in reversed(graph.nodes):
        if not _can_skip(graph, node) or any(e in graph.head_set for e in graph.outputs_of(node)):
            continue
        if any(graph.readers.get(Entry(node, i)) for i in range(1, node.num_outputs)):
            continue
        readers = graph.readers.get(Entry(node), [])
        demands = {_demand(r, i, wanted.get(r)) for r, i in readers}
        found = demands.pop() if len(demands) == 1 else None
        if found is not None and max(found) > 1:
            wanted[node] = found
    return wanted


def _demand(reader: Node, position: int, wanted: Steps | None) -> Steps | None:
    """The steps in which a node reads an image, of whose own output so much is wanted; None: all of it."""
    if reader.op is not None and reader.op.name == "Convolution":
        return _steps(reader, wanted) if _absorbs(reader, position) else None
    return wanted


def _can_skip(graph: Graph, node: Node) -> bool:
    p: Any = node.params
    name = "" if node.op is None else node.op.name
    shape = graph.specs[Entry(node)].shape
    if len(shape) != 4:
        return False
    if name == "Convolution":
        return len(p.kernel) == 2 and p.layout in _FIRST
    if name == "BatchNorm":
        return bool(p.axis % 4 == 1)  # its statistics are known in inference
    if not isinstance(node.op, Elementwise) or node.num_outputs != 1 or node.mutated:
        return False
    return expression_of(node.op, p) is not None and all(graph.specs[e].shape == shape for e in node.inputs)


def _absorbs(node: Node, position: int) -> bool:
    """True for a pointwise convolution that reads an image."""
    p: Any = node.params
    if node.op is None or node.op.name != "Convolution" or position != 0 or p.layout not in _FIRST:
        return False
    return p.kernel == (1, 1) and not any(p.pad)


def _steps(node: Node, wanted: Steps | None) -> Steps:
    """The steps of a convolution of whose output so much is wanted."""
    p: Any = node.params
    own = tuple(p.stride) or (1, 1)
    return own if wanted is None else (own[0] * wanted[0], own[1] * wanted[1])


class _Thinned:
    def __init__(self, graph: Graph, wanted: dict[Node, Steps]) -> None:
        self._graph = graph
        self._wanted = wanted
        self._thin: dict[tuple[Entry, Steps], Entry] = {}  # values of which positions were left out
        self._made: set[Node] = set()  # nodes that make such a value themselves

    def run(self) -> Graph:
        """The graph without computations of values that are not read."""
        mapping: dict[Entry, Entry] = {}
        for node in self._graph.nodes:
            steps = self._wanted.get(node)
            pointwise = _absorbs(node, 0) and node.inputs[0].node in self._made
            if node.op is not None and node.op.name == "Convolution":
                if steps is None and not pointwise:
                    continue
                made = self._convolution(node, _steps(node, steps), pointwise)
            elif steps is None or not any(e.node in self._made for e in node.inputs):
                continue  # nothing in front of it gains
            else:
                made = self._elementwise(node, steps)
            if steps is None:
                mapping[Entry(node)] = made
            else:
                self._thin[Entry(node), steps] = made
                self._made.add(node)
        return self._graph.replace(mapping)

    def _convolution(self, node: Node, steps: Steps, pointwise: bool) -> Entry:
        p: Any = node.params
        assert node.op is not None
        data, stride = (self._thin[node.inputs[0], steps], ()) if pointwise else (node.inputs[0], steps)
        inputs = (data, *node.inputs[1:])
        return self._graph.apply(node.op, inputs, node.name, changed(p, stride=stride), node.attrs)[0]

    def _elementwise(self, node: Node, steps: Steps) -> Entry:
        assert node.op is not None and node.params is not None
        inputs = [self._thinned(e, steps) for e in node.inputs]
        return self._graph.apply(node.op, inputs, node.name, node.params, node.attrs)[0]

    def _thinned(self, entry: Entry, steps: Steps) -> Entry:
        """Every n-th position of an image; a vector unchanged."""
        if len(self._graph.specs[entry].shape) != 4:
            return entry
        if (entry, steps) not in self._thin:
            # The mean of one value is that value. Maxima pass over NaN, and sums have no kernel with channels last.
            window: dict[str, Any] = {"kernel": (1, 1), "stride": steps, "pool_type": "avg"}
            made = self._graph.apply("Pooling", (entry,), f"{entry.name}_thinned", **window)
            self._thin[entry, steps] = made[0]
        return self._thin[entry, steps]
