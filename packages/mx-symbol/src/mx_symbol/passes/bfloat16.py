# SPDX-License-Identifier: Apache-2.0
"""Inference in bfloat16 where it is safe (Micikevicius et al., Mixed Precision Training, ICLR 2018).

Convolutions, fully connected and recurrent layers read and write bfloat16 and accumulate in float32; poolings, joins,
changes of shape, layer norms and elementwise operators between them stay in it. Everything else, and every output
of the graph, is float32. Weights are cast by prepared nodes. It changes results by about 1 %, so it is off unless
it is asked for: `passes="+bfloat16"`.
"""

from __future__ import annotations

from mx_core import dtypes
from mx_core.graph import PREPARED
from mx_core.operator.simple import Elementwise
from mx_symbol.graph import Entry, Node
from mx_symbol.graph.ir import Graph

_LOW, _FLOAT32 = dtypes.code("bfloat16"), dtypes.code("float32")
#: inputs of an operator that become bfloat16; the others stay as they are
_LAYERS = {
    "_fused_Convolution": ("data", "weight", "residual"),
    "_fused_FullyConnected": ("data", "weight", "bias", "residual"),
    "FullyConnected": ("data", "weight", "bias"),
    "_fused_attention": ("query", "key", "value"),
    "RNN": ("data", "parameters", "state", "state_cell"),
    "LayerNorm": ("data", "gamma", "beta"),
}
#: those of them that are float32 but between others
_BETWEEN = frozenset({"LayerNorm"})
_FOLLOWERS = frozenset(
    {"Pooling", "Concat", "Flatten", "Reshape", "transpose", "expand_dims", "squeeze", "SliceChannel"}
)
#: elementwise operators that would lose too much
_EXACT = frozenset({"exp", "expm1", "log", "log1p", "rsqrt", "reciprocal", "erfinv", "gamma", "gammaln"})


def bfloat16(graph: Graph) -> Graph:
    """Moves layers, and what lies between them, to bfloat16."""
    return _Region(graph).run()


class _Region:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._low: dict[Entry, Entry] = {}
        self._mapping: dict[Entry, Entry] = {}

    def run(self) -> Graph:
        """The graph with its regions moved."""
        for node in self._graph.nodes:
            assert node.op is not None
            if PREPARED in node.attrs or node.mutated:
                continue
            if node.op.name in _BETWEEN and not self._lies_between(node):
                continue
            made = self._layer(node) if node.op.name in _LAYERS else self._follower(node)
            if made is None:
                continue
            for i, low in enumerate(made):
                if self._graph.specs[low].dtype != _LOW:  # statistics stay float32
                    self._mapping[Entry(node, i)] = low
                    continue
                self._low[Entry(node, i)] = low
                self._mapping[Entry(node, i)] = self._cast(low, "float32", node.name)
        return self._graph.replace(self._mapping)

    def _cast(self, entry: Entry, dtype: str, name: str) -> Entry:
        fixed = entry.node.is_variable or PREPARED in entry.node.attrs
        attrs = {PREPARED: "1"} if fixed and dtype == "bfloat16" and self._is_parameter(entry) else {}
        return self._graph.apply("Cast", (entry,), f"{name}_{dtype}", attrs=attrs, dtype=dtype)[0]

    def _is_parameter(self, entry: Entry) -> bool:
        """True when layers read an entry only as a weight or bias, or as a state."""
        return all(position > 0 and node.op is not None and node.op.name in _LAYERS
                   for node, position in self._graph.readers[entry])  # fmt: skip

    def _lowered(self, entry: Entry) -> Entry:
        if entry not in self._low:
            self._low[entry] = self._cast(entry, "bfloat16", entry.node.name)
        return self._low[entry]

    def _lies_between(self, node: Node) -> bool:
        """True when a node reads what is bfloat16, and a layer its one output that counts."""
        first, *hidden = self._graph.outputs_of(node)
        counts = self._graph.readers.keys() | self._graph.head_set
        layers = [
            r for r, _ in self._graph.readers.get(first, []) if r.op is not None and r.op.name in _LAYERS
        ]
        return node.inputs[0] in self._low and bool(layers) and not counts & set(hidden)

    def _layer(self, node: Node) -> tuple[Entry, ...] | None:
        assert node.op is not None
        named = list(zip(node.input_names, node.inputs, strict=True))
        chosen = _LAYERS[node.op.name]
        if any(name in chosen and self._graph.specs[entry].dtype != _FLOAT32 for name, entry in named):
            return None
        inputs = [self._lowered(entry) if name in chosen else entry for name, entry in named]
        return self._with_kernel(node, inputs)

    def _follower(self, node: Node) -> tuple[Entry, ...] | None:
        assert node.op is not None
        elementwise = (
            isinstance(node.op, Elementwise) and node.op.name not in _EXACT and node.num_outputs == 1
        )
        if not elementwise and node.op.name not in _FOLLOWERS:
            return None
        if not node.inputs or not all(e in self._low for e in node.inputs):
            return None
        if any(self._graph.specs[e].dtype != _FLOAT32 for e in self._graph.outputs_of(node)):
            return None
        return self._with_kernel(node, [self._low[e] for e in node.inputs])

    def _with_kernel(self, node: Node, inputs: list[Entry]) -> tuple[Entry, ...] | None:
        assert node.op is not None and node.params is not None
        made = self._graph.apply(node.op, inputs, node.name, node.params, node.attrs)
        if self._graph.specs[made[0]].dtype != _LOW:
            return None
        specs = [self._graph.specs[e] for e in inputs], [self._graph.specs[e] for e in made]
        return made if self._graph.has_kernel(node.op, node.params, *specs) else None
