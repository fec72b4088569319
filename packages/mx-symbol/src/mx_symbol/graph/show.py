# SPDX-License-Identifier: Apache-2.0
"""A graph as text, as dot, or drawn as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from mx_core.graph import PREPARED
from mx_symbol.graph import Entry, Node, topological_order
from mx_symbol.graph.ir import Graph

#: the longest list of parameters shown
_WIDTH = 60
_BOX, _ROW, _GAP = 200, 70, 14


def text(graph: Graph) -> str:
    """A line per node in the order in which they run: name, operator, parameters, inputs, outputs."""
    lines = []
    for node in graph.nodes:
        outputs = ", ".join(_spec(graph, entry) for entry in _read_outputs(graph, node))
        inputs = ", ".join(entry.name for entry in node.inputs)
        part = "" if node in graph.forward else "backward "
        part = "prepared " if PREPARED in node.attrs else part
        lines.append(f"{part}{node.name} = {_application(node)}({inputs}) : {outputs}")
    heads = [f"output {entry.name}" for entry in graph.outputs]
    heads += [f"gradient {entry.name}" for entry in graph.grads]
    return "\n".join([*lines, *heads])


def dot(graph: Graph) -> str:
    """In the language of Graphviz."""
    order = topological_order(entry.node for entry in graph.heads)
    numbers = {node: i for i, node in enumerate(order)}
    lines = ["digraph {", '  node [shape=box, fontname="sans-serif"]']
    for node, i in numbers.items():
        shape = "ellipse" if node.is_variable else "box"
        name, application = (_quoted(part) for part in (node.name, _application(node)))
        lines.append(f'  n{i} [shape={shape}, label="{name}\\n{application}"]')
    for node in order:
        for entry in node.inputs:
            label = _quoted(_spec(graph, entry))
            lines.append(f'  n{numbers[entry.node]} -> n{numbers[node]} [label="{label}"]')
    return "\n".join([*lines, "}"])


def svg(graph: Graph) -> str:
    """Drawn in rows: every node below what it reads."""
    order = topological_order(entry.node for entry in graph.heads)
    rows: dict[Node, int] = {}
    columns: dict[Node, int] = {}
    filled: dict[int, int] = {}
    for node in order:
        if not node.is_variable:
            rows[node] = 1 + max((rows.get(e.node, 0) for e in node.inputs), default=0)
    for node in order:
        for entry in node.inputs:
            if entry.node.is_variable:  # just above its first reader
                rows[entry.node] = min(rows.get(entry.node, len(order)), rows[node] - 1)
    for head in graph.heads:
        rows.setdefault(head.node, 0)
    for node in order:
        columns[node] = filled.get(rows[node], 0)
        filled[rows[node]] = columns[node] + 1
    place = {node: (columns[node] * (_BOX + _GAP) + _GAP, rows[node] * _ROW + _GAP) for node in order}
    width, height = max(filled.values()) * (_BOX + _GAP) + _GAP, (max(rows.values()) + 1) * _ROW + _GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">'
    ]
    for node in order:
        x, y = place[node]
        for entry in node.inputs:
            u, v = place[entry.node]
            parts.append(
                f'<path d="M{u + _BOX / 2} {v + 40} C{u + _BOX / 2} {v + 60} {x + _BOX / 2} {y - 20} '
                f'{x + _BOX / 2} {y}" fill="none" stroke="#999"/>'
            )
    for node in order:
        x, y = place[node]
        fill = "#eee" if node.is_variable else "#cde" if node in graph.forward else "#edc"
        parts.append(
            f'<g><title>{escape(_application(node))}</title><rect x="{x}" y="{y}" width="{_BOX}" height="40" '
            f'rx="4" fill="{fill}" stroke="#888"/><text x="{x + 6}" y="{y + 17}" font-size="15">'
            f'{escape(_cut(node.name, 21))}</text><text x="{x + 6}" y="{y + 34}" font-size="13" fill="#444">'
            f"{escape(_cut(_application(node), 25))}</text></g>"
        )
    return "\n".join([*parts, "</svg>"])


def debug_text(heads: Sequence[Entry]) -> str:
    """One paragraph per node: operator, name, inputs, attributes; a variable alone is one line."""
    if len(heads) == 1 and heads[0].node.is_variable:
        return f"Variable:{heads[0].node.name}\n"
    lines = ["Symbol Outputs:"]
    lines += [f"\toutput[{i}]={e.node.name}({e.index})" for i, e in enumerate(heads)]
    for node in topological_order(entry.node for entry in heads):
        if node.is_variable:
            lines.append(f"Variable:{node.name}")
            continue
        assert node.op is not None
        lines += ["-" * 20, f"Op:{node.op.name}, Name={node.name}", "Inputs:"]
        mutated = node.mutated
        for i, entry in enumerate(node.inputs):
            version = f" version={int(i in mutated)}" if entry.node.is_variable else ""
            lines.append(f"\targ[{i}]={entry.node.name}({entry.index}){version}")
        attrs = node.attributes()
        if attrs:
            lines += ["Attrs:", *(f"\t{key}={attrs[key]}" for key in sorted(attrs))]
    return "\n".join(lines) + "\n"


def _spec(graph: Graph, entry: Entry) -> str:
    """Type and shape, or a question mark where they are not known."""
    return str(graph.specs.get(entry, "?"))


def _read_outputs(graph: Graph, node: Node) -> list[Entry]:
    entries = [Entry(node, i) for i in range(node.num_outputs)]
    return [entry for entry in entries if entry in graph.readers or entry in graph.head_set]


def _application(node: Node) -> str:
    """The operator with its parameters, shortened."""
    if node.op is None or node.params is None:
        return "variable"
    shown = ", ".join(f"{name}={value}" for name, value in node.params.attrs().items())
    shown = shown if len(shown) <= _WIDTH else shown[: _WIDTH - 1] + "…"
    return f"{node.op.name}[{shown}]" if shown else node.op.name


def _cut(text: str, limit: int) -> str:
    """At most `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _quoted(part: str) -> str:
    return part.replace("\\", "\\\\").replace('"', '\\"')
