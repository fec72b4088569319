# SPDX-License-Identifier: Apache-2.0
"""Channels last: regions around two-dimensional convolutions compute on (N, H, W, C).

Vendor libraries convolve in that order or one like it and would reorder each tensor to it and back. Here
only what enters and leaves a region is transposed: convolutions, poolings, batch normalisations, joins and
elementwise operators between convolutions stay in it, and so do their gradients. Weights are transposed too: in
inference that is prepared, so it happens once; a training step has a copy of each, and of its gradient.

On a GPU it is done for 16-bit convolutions, whose libraries multiply whole rows of channels at once; those of float32
stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mx_core import dtypes
from mx_core.graph import PREPARED
from mx_core.operator import Operator, Params
from mx_core.operator.simple import Elementwise
from mx_core.operator.tracing import expression_of
from mx_symbol.graph import Entry, Node
from mx_symbol.graph.ir import Graph, changed

TO_LAST, TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
#: types of convolutions that are moved, by the first letters of the device
_TYPES = {
    "cpu": frozenset(dtypes.code(name) for name in ("float32", "bfloat16")),
    "gpu": frozenset(dtypes.code(name) for name in ("float16", "bfloat16")),
}
_FIRST = (None, "NCHW")

#: the outputs of a node whose images and weights have their channels last
_Made = tuple[Entry, ...] | None


def channels_last(graph: Graph) -> Graph:
    """Moves regions around convolutions to channels-last tensors."""
    types = _TYPES.get(graph.context.device_type[:3])
    return graph if types is None else _Region(graph, types).run()


def channels_last_training(graph: Graph) -> Graph:
    """The same in a program that trains, gradients included."""
    return channels_last(graph) if graph.is_train else graph


class _Region:
    def __init__(self, graph: Graph, types: frozenset[int]) -> None:
        self._graph, self._types = graph, types
        self._last: dict[Entry, Entry] = {}  # what exists with its channels last
        self._mapping: dict[Entry, Entry] = {}
        self._rules: dict[str, Callable[[Node], _Made]] = {
            "Convolution": self._convolution, "Pooling": self._pooling, "BatchNorm": self._batch_norm,
            "Concat": self._concat, "_backward_Convolution": self._convolution,
            "_backward_Pooling": self._pooling, "_backward_BatchNorm": self._batch_norm,
            "_backward_Concat": self._concat,
        }  # fmt: skip

    def run(self) -> Graph:
        """The graph with its regions moved."""
        if not any(self._graph.find("Convolution", "_backward_Convolution")):
            return self._graph
        inside: dict[Entry, Entry] = {}  # what the region computes
        read = set(self._graph.head_set)  # outside of it
        for node in self._graph.nodes:
            made = self._made(node)
            if made is None:
                read.update(node.inputs)
                continue
            for old, new in zip(self._graph.outputs_of(node), made, strict=True):
                if len(self._graph.specs[old].shape) == 4:
                    self._last[old] = inside[old] = new
                else:
                    self._mapping[old] = new
        for old in (entry for entry in inside if entry in read):
            self._mapping[old] = self._transposed(inside[old], TO_FIRST, old.name)
        return self._graph.replace(self._mapping)

    def _made(self, node: Node) -> _Made:
        """What a node is in the region; None if it stays outside."""
        assert node.op is not None
        rule = self._rules.get(node.op.name)
        if rule is None and isinstance(node.op, Elementwise):
            rule = self._elementwise
        return None if rule is None or len(self._graph.specs[Entry(node)].shape) != 4 else rule(node)

    def _transposed(self, entry: Entry, axes: tuple[int, ...], name: str, is_weight: bool = False) -> Entry:
        fixed = (is_weight and entry.node.is_variable) or PREPARED in entry.node.attrs
        attrs = {PREPARED: "1"} if fixed and not self._graph.is_train else {}
        return self._graph.apply("transpose", (entry,), f"{name}_transposed", attrs=attrs, axes=axes)[0]

    def _moved(self, entry: Entry, is_weight: bool = False) -> Entry:
        """The entry with its channels last."""
        if entry not in self._last:
            self._last[entry] = self._transposed(entry, TO_LAST, entry.node.name, is_weight)
        return self._last[entry]

    def _apply(self, node: Node, inputs: list[Entry], params: Params) -> tuple[Entry, ...]:
        assert node.op is not None
        return self._graph.apply(node.op, inputs, node.name, params, attrs=node.attrs)

    def _convolution(self, node: Node) -> _Made:
        """Forward of (data, weight, bias), or backward of (gradient, data, weight)."""
        p: Any = node.params
        types = {self._graph.specs[e].dtype for e in node.inputs}
        if p.layout not in _FIRST or len(p.kernel) != 2 or not types <= self._types:
            return None
        inputs = [
            self._moved(entry, name == "weight") if name != "bias" else entry
            for name, entry in zip(node.input_names, node.inputs, strict=True)
        ]
        return self._apply(node, inputs, changed(p, layout="NHWC"))

    def _pooling(self, node: Node) -> _Made:
        """Forward, or backward of (gradient, data, output)."""
        p: Any = node.params
        if not any(e in self._last for e in node.inputs) or p.layout not in _FIRST:
            return None
        return self._where_native(node, [self._moved(e) for e in node.inputs], changed(p, layout="NHWC"))

    def _batch_norm(self, node: Node) -> _Made:
        """Forward, or backward, which reads the gradient too."""
        p: Any = node.params
        images = [e for e in node.inputs if len(self._graph.specs[e].shape) == 4]
        if not any(e in self._last for e in images) or p.axis % 4 != 1:
            return None
        vectors = node.inputs[len(images) :]
        return self._where_native(node, [*map(self._moved, images), *vectors], changed(p, axis=3))

    def _where_native(self, node: Node, inputs: list[Entry], params: Params) -> _Made:
        made = self._apply(node, inputs, params)
        assert node.op is not None
        op: Operator = node.op
        specs = [self._graph.specs[e] for e in inputs], [self._graph.specs[e] for e in made]
        return made if self._graph.has_kernel(op, params, *specs) else None

    def _concat(self, node: Node) -> _Made:
        p: Any = node.params
        if p.dim % 4 != 1 or not all(e in self._last for e in node.inputs[-p.num_args :]):
            return None
        return self._apply(node, [self._moved(e) for e in node.inputs], changed(p, dim=3))

    def _elementwise(self, node: Node) -> _Made:
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
    return expression_of(node.op, node.params) is not None and not node.mutated
