# SPDX-License-Identifier: Apache-2.0
"""Reading symbol JSON of every MXNet version from 0.8 on.

Files are not trusted: unknown operators, wrong indices, cycles and malformed parts give an
error that names the part. Memory is bounded by the size of the file.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Sequence
from typing import Any, NoReturn

from mx_core import operators
from mx_core.errors import FileFormatError, MXNetError, UnknownOperatorError
from mx_core.files import read_bytes
from mx_core.graph import PREPARED
from mx_symbol.graph import Entry, Node
from mx_symbol.serialization.json_writer import FORMAT_VERSION
from mx_symbol.serialization.upgrade import OLDEST, fill_inputs, input_attributes, upgraded_attributes
from mx_symbol.symbol import Symbol
from mx_symbol.symbol.attribute import canonical_key, is_dunder, split_input_key

#: Subgraphs within subgraphs: each level takes a few calls on Python's stack, here and in the writer.
_MAX_DEPTH = 16
_GRAPH_KEYS = frozenset(("nodes", "arg_nodes", "heads", "node_row_ptr", "attrs"))
_NODE_KEYS = frozenset(
    ("op", "name", "inputs", "attrs", "attr", "param", "control_deps", "subgraphs",
     "backward_source_id")
)  # fmt: skip


def load(fname: str | os.PathLike[str]) -> Symbol:
    """Reads a symbol file.

    Raises
    ------
    FileFormatError  the file is no symbol JSON, or a part of it is wrong; names file and part
    OSError  it cannot be read
    """
    return _parse(read_bytes(fname), os.fspath(fname))


def load_json(json_str: str) -> Symbol:
    """The symbol a JSON text describes.

    Raises
    ------
    FileFormatError  it is no symbol JSON, or a part of it is wrong; names the part
    """
    if not isinstance(json_str, str):
        raise TypeError(f"[load_json] expected text, got {json_str!r}")
    return _parse(json_str, "symbol JSON")


fromjson = load_json


def _parse(data: bytearray | str, where: str) -> Symbol:
    try:
        graph = json.loads(data if isinstance(data, str) else data.decode("utf-8"))
        # Half of a surrogate pair is allowed by JSON, and by nothing that writes text.
        json.dumps(graph, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"[{where}] not JSON: {error}") from None
    return Symbol(_Reader(where, _version(graph, where)).graph(graph))


def _version(graph: Any, where: str) -> int:
    attrs = graph.get("attrs") if isinstance(graph, dict) else None
    if attrs is None:
        return OLDEST
    stated = attrs.get("mxnet_version") if isinstance(attrs, dict) else [None]
    if stated is None:
        return OLDEST
    if not (isinstance(stated, list) and len(stated) == 2 and _is_index(stated[1])):
        raise FileFormatError(f"[{where}] mxnet_version: expected ['int', N], got {stated!r}")
    version: int = stated[1]
    if version > FORMAT_VERSION:
        warnings.warn(
            f"[{where}] was written by version {version}, newer than {FORMAT_VERSION}; "
            "it may be read wrongly",
            stacklevel=4,
        )
    return version


def _is_index(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**53


class _Reader:
    """One graph of a file, or one of its subgraphs."""

    def __init__(self, where: str, version: int, depth: int = 0) -> None:
        self._where = where
        self._version = version
        self._depth = depth

    def graph(self, graph: Any) -> tuple[Entry, ...]:
        if self._depth > _MAX_DEPTH:
            self._fail(f"expected at most {_MAX_DEPTH} subgraphs within each other")
        if not isinstance(graph, dict):
            self._wrong("graph", "an object", graph)
        for key in graph:
            if key not in _GRAPH_KEYS:
                self._fail(f"unknown key {key!r}; allowed: {', '.join(sorted(_GRAPH_KEYS))}")
        for key in ("nodes", "arg_nodes", "heads"):
            if not isinstance(graph.get(key), list):
                self._wrong(key, "a list", graph.get(key))
        described = graph["nodes"]
        for i in graph["arg_nodes"]:
            if not _is_index(i) or i >= len(described) or _operator(described[i]) != "null":
                self._wrong("arg_nodes", f"indices of variables among {len(described)} nodes", i)
        nodes = [self._node(i, text) for i, text in enumerate(described)]
        for node, text in zip(nodes, described, strict=True):
            inputs = text["inputs"]
            node.inputs = [self._entry(pair, nodes, f"inputs of {node.name!r}") for pair in inputs]
        self._refuse_cycles(nodes)
        for node, text in zip(nodes, described, strict=True):
            if node.op is not None:
                self._finish(node, text)
        heads = [self._entry(pair, nodes, "heads") for pair in graph["heads"]]
        if not heads:
            self._wrong("heads", "at least one output", heads)
        for entry, user in [(e, "heads") for e in heads] + [
            (e, f"inputs of {node.name!r}") for node in nodes for e in node.inputs
        ]:
            if entry.index >= entry.node.num_outputs:
                self._wrong(user, f"an output below {entry.node.num_outputs} of "
                            f"{entry.node.name!r}", entry.index)  # fmt: skip
        return tuple(heads)

    def _node(self, i: int, text: Any) -> Node:
        if not isinstance(text, dict):
            self._wrong(f"node {i}", "an object", text)
        for key in text:
            if key not in _NODE_KEYS:
                self._fail(f"node {i}: unknown key {key!r}; allowed: {', '.join(sorted(_NODE_KEYS))}")
        for key, kind in (("op", str), ("name", str), ("inputs", list)):
            if not isinstance(text.get(key), kind):
                self._wrong(f"node {i} {key}", kind.__name__, text.get(key))
        attrs = self._attributes(i, text)
        if text["op"] == "null":
            if text["inputs"]:
                self._wrong(f"node {i} {text['name']!r} inputs", "none for a variable", text["inputs"])
            return Node(None, None, text["name"], {canonical_key(k): v for k, v in attrs.items()})
        try:
            op = operators.get(text["op"])
        except UnknownOperatorError as error:
            self._fail(f"cannot load {text['name']!r} of type {text['op']!r}: {error}")
        declared = {info.name for info in op.Param.fields()}
        own = {}
        for key, value in attrs.items():
            full = canonical_key(key)
            if key not in declared and (is_dunder(full) or split_input_key(key) is not None):
                own[full] = value
        given = {k: v for k, v in attrs.items() if k not in own and canonical_key(k) not in own}
        given = upgraded_attributes(op.name, given, self._version)
        try:
            params = op.Param.parse(given, op=op.name, node=text["name"])
        except MXNetError as error:
            self._fail(str(error))
        subgraphs = text.get("subgraphs", [])
        if not isinstance(subgraphs, list) or len(subgraphs) > 16:
            self._wrong(f"node {i} subgraphs", "a list of at most 16 graphs", subgraphs)
        reader = _Reader(f"{self._where}: subgraph of {text['name']!r}", self._version, self._depth + 1)
        inner = [Symbol(reader.graph(subgraph)) for subgraph in subgraphs]
        node = Node(op, params, text["name"], own, (), inner)
        node.set_texts(given)
        return node

    def _attributes(self, i: int, text: dict[str, Any]) -> dict[str, str]:
        result: dict[str, str] = {}
        for key in ("param", "attr", "attrs"):  # the later one wins
            part = text.get(key, {})
            if not isinstance(part, dict):
                self._wrong(f"node {i} {key}", "an object", part)
            for name, value in part.items():
                if not isinstance(value, str):
                    self._wrong(f"node {i} {key} {name!r}", "text", value)
            result |= part
        if PREPARED in result:
            name = text["name"]
            self._fail(
                f"node {i} {name!r}: attribute {PREPARED!r} is private to graph passes; no file has it"
            )
        return result

    def _entry(self, pair: Any, nodes: Sequence[Node], where: str) -> Entry:
        if not (isinstance(pair, list) and len(pair) in (2, 3) and all(map(_is_index, pair))):
            self._wrong(where, "[node, output, version]", pair)
        if pair[0] >= len(nodes):
            self._wrong(where, f"a node below {len(nodes)}", pair[0])
        return Entry(nodes[pair[0]], pair[1])

    def _finish(self, node: Node, text: dict[str, Any]) -> None:
        fill_inputs(node, self._version)
        names = node.input_names
        if len(node.inputs) != len(names):
            self._fail(
                f"[{text['op']} {node.name!r}] expected {len(names)} inputs ({', '.join(names)}), "
                f"got {len(node.inputs)}"
            )
        input_attributes(node, self._version)

    def _refuse_cycles(self, nodes: Sequence[Node]) -> None:
        waiting = {node: len(node.inputs) for node in nodes}
        users: dict[Node, list[Node]] = {}
        for node in nodes:
            for entry in node.inputs:
                users.setdefault(entry.node, []).append(node)
        ready = [node for node in nodes if not node.inputs]
        done = 0
        while ready:
            done += 1
            for user in users.get(ready.pop(), ()):
                waiting[user] -= 1
                if waiting[user] == 0:
                    ready.append(user)
        if done != len(nodes):
            stuck = [node.name for node in nodes if waiting[node] > 0]
            self._fail(f"the graph has a cycle through or before {', '.join(stuck[:5])}")

    def _wrong(self, part: str, expected: str, got: Any) -> NoReturn:
        shown = repr(got)
        if len(shown) > 200:
            shown = shown[:200] + "…"
        self._fail(f"{part}: expected {expected}, got {shown}")

    def _fail(self, message: str) -> NoReturn:
        raise FileFormatError(f"[{self._where}] {message}")


def _operator(text: Any) -> Any:
    return text.get("op") if isinstance(text, dict) else None
