# SPDX-License-Identifier: Apache-2.0
"""Channels last: regions around two-dimensional convolutions compute on (N, H, W, C).

Vendor libraries convolve in that order or one like it and would reorder each tensor to it and back. Here
only what enters and leaves a region is transposed: convolutions, poolings, batch normalisations, joins and
elementwise operators between convolutions stay in it. Weights are transposed too; that is prepared, so it
happens once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mx_core import dtypes
from mx_core.kernels import prepare
from mx_core.operator import Params
from mx_core.operator.simple import Elementwise
from mx_symbol.graph import Entry, Node
from mx_symbol.ir import PREPARED, Graph

TO_LAST, TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
_TYPES = frozenset(dtypes.code(name) for name in ("float32", "bfloat16"))


def channels_last(graph: Graph) -> Graph:
    """Moves regions around convolutions to channels-last tensors."""
    if not graph.context.device_type.startswith("cpu"):
        return graph
    return _Region(graph).run()


class _Region:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._last: dict[Entry, Entry] = {}  # what exists with its channels last
        self._mapping: dict[Entry, Entry] = {}
        self._rules: dict[str, Callable[[Node], Entry | None]] = {
            "Convolution": self._convolution, "Pooling": self._pooling, "BatchNorm": self._batch_norm,
            "Concat": self._concat,
        }  # fmt: skip

    def run(self) -> Graph:
        """The graph with its regions moved."""
        for node in self._graph.nodes:
            assert node.op is not None
            rule = self._rules.get(node.op.name)
            if rule is None and isinstance(node.op, Elementwise):
                rule = self._elementwise
            if rule is None or len(self._graph.specs[Entry(node)].shape) != 4:
                continue
            made = rule(node)
            if made is None:
                continue
            self._last[Entry(node)] = made
            self._mapping[Entry(node)] = self._turned(made, TO_FIRST, node.name)
            for i in range(1, node.num_outputs):  # vectors
                self._mapping[Entry(node, i)] = Entry(made.node, i)
        return self._graph.replace(self._mapping)

    def _turned(self, entry: Entry, axes: tuple[int, ...], name: str, is_weight: bool = False) -> Entry:
        fixed = entry.node.is_variable or PREPARED in entry.node.attrs
        attrs = {PREPARED: "1"} if is_weight and fixed else {}
        return self._graph.apply("transpose", (entry,), f"{name}_transposed", attrs=attrs, axes=axes)[0]

    def _moved(self, entry: Entry, is_weight: bool = False) -> Entry:
        """The entry with its channels last."""
        if entry not in self._last:
            self._last[entry] = self._turned(entry, TO_LAST, entry.node.name, is_weight)
        return self._last[entry]

    def _apply(self, node: Node, inputs: list[Entry], params: Params) -> Entry:
        assert node.op is not None
        return self._graph.apply(node.op, inputs, node.name, params, attrs=node.attrs)[0]

    def _convolution(self, node: Node) -> Entry | None:
        p: Any = node.params
        types = {self._graph.specs[e].dtype for e in node.inputs}
        if p.layout not in (None, "NCHW") or len(p.kernel) != 2 or not types <= _TYPES:
            return None
        data, weight, *bias = node.inputs
        return self._apply(
            node, [self._moved(data), self._moved(weight, True), *bias], p.replace(layout="NHWC")
        )

    def _pooling(self, node: Node) -> Entry | None:
        p: Any = node.params
        if node.inputs[0] not in self._last or p.layout not in (None, "NCHW"):
            return None
        made = self._apply(node, [self._moved(node.inputs[0])], p.replace(layout="NHWC"))
        return made if self._has_kernel(made.node) else None

    def _has_kernel(self, node: Node) -> bool:
        assert node.op is not None and node.params is not None
        specs = self._graph.specs
        inputs, outputs = [specs[e] for e in node.inputs], [specs[Entry(node)]]
        return prepare(node.op, node.params, inputs, outputs, self._graph.context).variant != "reference"

    def _batch_norm(self, node: Node) -> Entry | None:
        p: Any = node.params
        if node.inputs[0] not in self._last or p.axis % 4 != 1:
            return None
        return self._apply(node, [self._moved(node.inputs[0]), *node.inputs[1:]], p.replace(axis=3))

    def _concat(self, node: Node) -> Entry | None:
        p: Any = node.params
        if p.dim % 4 != 1 or not all(e in self._last for e in node.inputs):
            return None
        return self._apply(node, [self._moved(e) for e in node.inputs], p.replace(dim=3))

    def _elementwise(self, node: Node) -> Entry | None:
        assert node.op is not None and node.params is not None
        shapes = [self._graph.specs[e].shape for e in node.inputs]
        shape = self._graph.specs[Entry(node)].shape
        if node.num_outputs != 1 or not any(e in self._last for e in node.inputs):
            return None
        if any(len(s) != 4 for s in shapes) or not _same_function(node):
            return None
        # What is not in the region yet must not cost more than it saves.
        if any(e.node.is_variable and self._graph.specs[e].shape == shape for e in node.inputs):
            return None
        return self._apply(node, [self._moved(e) for e in node.inputs], node.params)


def _same_function(node: Node) -> bool:
    """True for an elementwise operator that does not care which axis is which."""
    assert isinstance(node.op, Elementwise) and node.params is not None
    return node.op.expression(node.params) is not None and not node.mutated
