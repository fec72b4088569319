# SPDX-License-Identifier: Apache-2.0
"""The graph: nodes and entries, what is inferred of them, the gradient graph, and the graph that passes rewrite."""

from __future__ import annotations

from mx_symbol.graph.node import (
    Entry,
    Node,
    auxiliary_variables,
    copy_graph,
    rewrite,
    topological_order,
)

__all__ = ["Entry", "Node", "auxiliary_variables", "copy_graph", "rewrite", "topological_order"]
