# SPDX-License-Identifier: Apache-2.0
"""A convolution or fully connected layer, the addition after it and the activation after that as one operator.

Vendor libraries apply both while a tile of the result is in registers. It is done where a kernel for
`_fused_Convolution` or `_fused_FullyConnected` takes the result; elsewhere the graph stays as it is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mx_symbol.graph import Entry, Node
from mx_symbol.graph.ir import Graph, parameters
from mx_symbol.passes.fused_layers import FUSED_LAYERS

_ADDITIONS = ("elemwise_add", "broadcast_add", "_grad_add")


def fuse_layers(graph: Graph) -> Graph:
    """Makes one operator of each layer and what follows it."""
    mapping: dict[Entry, Entry] = {}
    absorbed: set[Node] = set()
    for node in reversed(list(graph.find(*FUSED_LAYERS))):
        chain = _chain(graph, node, absorbed)
        made = _apply(graph, node, chain)  # also without anything after it: its weight can be packed
        if made is not None:
            mapping[chain.end] = made
            absorbed.update(chain.nodes)
    return graph.replace(mapping)


class _Chain(NamedTuple):
    """What follows a layer."""

    end: Entry
    residual: Entry | None
    activation: dict[str, Any]
    nodes: tuple[Node, ...]


def _chain(graph: Graph, node: Node, absorbed: set[Node]) -> _Chain:
    end, residual = Entry(node), None
    nodes: list[Node] = []
    reader = graph.only_reader(end)
    if reader is not None and _adds(graph, reader[0]) and reader[0] not in absorbed:
        add, position = reader
        residual = add.inputs[1 - position]
        end = Entry(add)
        nodes.append(add)
        reader = graph.only_reader(end)
    activation: dict[str, Any] = {}
    if reader is not None and reader[0] not in absorbed:
        activation = activation_of(reader[0])
        if activation:
            end = Entry(reader[0])
            nodes.append(reader[0])
    return _Chain(end, residual, activation, tuple(nodes))


def _adds(graph: Graph, node: Node) -> bool:
    """True for the sum of two different values of one shape."""
    if node.op is None or node.op.name not in _ADDITIONS or node.inputs[0] == node.inputs[1]:
        return False
    return len({graph.specs[e].shape for e in (*node.inputs, Entry(node))}) == 1


def activation_of(node: Node) -> dict[str, Any]:
    """The activation that a node is, as parameters of the fused operator; empty if it is none of them."""
    p: Any = node.params
    name = "" if node.op is None else node.op.name
    if name in ("relu", "sigmoid", "tanh"):
        return {"activation": name}
    if name == "Activation" and p.act_type in ("relu", "sigmoid", "tanh", "softrelu"):
        return {"activation": p.act_type}
    if name == "LeakyReLU" and p.act_type == "leaky":
        return {"activation": "leaky", "alpha": p.slope}
    if name == "LeakyReLU" and p.act_type == "gelu":
        return {"activation": "gelu"}
    if name == "clip":
        return {"activation": "clip", "alpha": p.a_min, "beta": p.a_max}
    return {}


def _apply(graph: Graph, node: Node, chain: _Chain) -> Entry | None:
    assert node.op is not None
    op, p = FUSED_LAYERS[node.op.name], node.params
    values = {name: getattr(p, name) for name in op.taken} | chain.activation
    params = parameters(op, {**values, "residual": chain.residual is not None})
    inputs = [*node.inputs, *(() if chain.residual is None else (chain.residual,))]
    specs = [graph.specs[e] for e in inputs]
    if not graph.has_kernel(op, params, specs, [graph.specs[chain.end]]):
        return None
    return graph.apply(op, inputs, chain.end.node.name, params, attrs=node.attrs)[0]
