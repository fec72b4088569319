# SPDX-License-Identifier: Apache-2.0
"""The pass `amp`: training in bfloat16, or float16 if `init` says so, with float32 parameters, gradients and outputs.

It runs before the graph is differentiated, so gradients are computed in the types of what they belong to. It is
off unless it is asked for: `passes="+amp"`, or `mx.contrib.amp.init()` for every graph that is bound from then on.
What is bound in float16, bfloat16 or float64 stays as it is.
"""

from __future__ import annotations

from mx_core import dtypes
from mx_core.graph import PREPARED
from mx_symbol.graph import Entry, topological_order
from mx_symbol.graph.ir import Graph, infer_specs
from mx_symbol.passes.cast_rules import LOW, current, current_dtype, lowered

_OTHERS = dtypes.FLOATING - {"float32"}


def mixed_precision(graph: Graph) -> Graph:
    """Casts between operators that compute in 16 bits, those that follow and those that must not."""
    specs = dict(graph.specs)
    others = {entry for entry, spec in specs.items() if dtypes.name(spec.dtype) in _OTHERS}
    heads = lowered(graph.outputs, current_dtype(), current(), others)
    for node in topological_order(entry.node for entry in heads):
        if node.op is not None and Entry(node) not in specs:
            infer_specs(node, specs)
    return Graph(heads, (), specs, graph.context, graph.is_train)


def prepare_casts(graph: Graph) -> Graph:
    """Keeps the casts of weights in inference: they run again only when a weight was written."""
    mapping: dict[Entry, Entry] = {}
    for node in graph.find("amp_cast", "Cast"):
        if not node.inputs[0].node.is_variable or Entry(node) in graph.head_set:
            continue
        readers = graph.readers.get(Entry(node), [])
        if readers and all(i > 0 and r.op is not None and r.op.name in LOW for r, i in readers):
            assert node.op is not None
            attrs = {**node.attrs, PREPARED: "1"}
            mapping[Entry(node)] = graph.apply(node.op, node.inputs, node.name, node.params, attrs)[0]
    return graph.replace(mapping)
