# SPDX-License-Identifier: Apache-2.0
"""Elementwise fusion: neighbours become one expression, which one kernel computes in one pass.

Groups grow greedily along data flow, as loop fusion over a dependence graph (Kennedy and McKinley, 1993):
a node joins the group of one of its inputs if that group's results have its shape and no path leaves the
group and comes back. Forward and backward nodes stay apart, since they run apart.
"""

from __future__ import annotations

from typing import Any

from mx_core import dtypes
from mx_core.expression import Builder, Opcode, Traced
from mx_core.graph import PREPARED
from mx_core.operator.simple import Elementwise
from mx_symbol.graph import Entry, Node
from mx_symbol.graph.ir import Graph
from mx_symbol.passes.fused import FUSED, FusedParams

#: inputs, outputs and values of one kernel; within them nothing is allocated when it runs
MOST_INPUTS, MOST_OUTPUTS, MOST_VALUES = 12, 8, 48
#: nodes between the first and the last of a group: what a group reads lives until the last of it would have run, so a
#: sum of gradients over many steps in one kernel would keep them all
MOST_SPAN = 32
#: nodes looked at when a path back into a group is searched; beyond it the group does not grow
SEARCH_LIMIT = 64

_SINGLE = frozenset(dtypes.code(name) for name in ("float32", "float16", "bfloat16"))
_DOUBLE = frozenset((dtypes.code("float64"),))


def fuse(graph: Graph) -> Graph:
    """Neighbouring elementwise operators of one shape become `_fused` nodes."""
    groups = _Groups(graph)
    for time, node in enumerate(graph.nodes):
        groups.add(time, node)
    mapping: dict[Entry, Entry] = {}
    known: dict[Any, bool] = {}
    for members in groups.found():
        mapping.update(_fused(graph, members, known))
    return graph.replace(mapping)


class _Group:
    """Nodes that become one, in the order in which they run."""

    def __init__(self, first: int, members: list[Node], last: int | None = None) -> None:
        self.first, self.last = first, first if last is None else last
        self.members = members

    def joined(self, other: _Group, times: dict[Node, int]) -> _Group:
        """Both as one."""
        members = sorted((*self.members, *other.members), key=times.__getitem__)
        return _Group(min(self.first, other.first), members, max(self.last, other.last))


class _Groups:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._times: dict[Node, int] = {}
        self._of: dict[Node, _Group] = {}
        self._kinds: dict[Node, object] = {}

    def found(self) -> list[list[Node]]:
        """Groups of more than one node, none of which waits for itself."""
        groups = [group for group in dict.fromkeys(self._of.values()) if len(group.members) > 1]
        while circle := self._circle(groups):
            groups.remove(min(circle, key=lambda group: len(group.members)))
        return [group.members for group in groups]

    def _circle(self, groups: list[_Group]) -> list[_Group]:
        """Groups that would wait for each other, if there are some: a group that had ended when another was looked at
        may have grown since."""
        unit: dict[Node, Any] = {node: group for group in groups for node in group.members}
        waits: dict[Any, dict[Any, None]] = {}  # in order, so that the same graph gives the same groups
        for node in self._times:
            mine = unit.get(node, node)
            read = [unit.get(e.node, e.node) for e in node.inputs if e.node in self._times]  # else variables
            waits.setdefault(mine, {}).update((other, None) for other in read if other is not mine)
        readers: dict[Any, list[Any]] = {}
        for mine, others in waits.items():
            for other in others:
                readers.setdefault(other, []).append(mine)
        ready = [mine for mine, others in waits.items() if not others]
        while ready:
            done = ready.pop()
            del waits[done]
            for reader in readers.get(done, ()):
                del waits[reader][done]
                if not waits[reader]:
                    ready.append(reader)
        path: dict[Any, None] = {}
        at = next(iter(waits), None)
        while at is not None and at not in path:  # whatever is left waits for something that is left
            path[at] = None
            at = next(iter(waits[at]))
        walked = list(path)
        return [found for found in walked[walked.index(at) :] if isinstance(found, _Group)] if walked else []

    def add(self, time: int, node: Node) -> None:
        """Puts the next node into a group, if it may be in one, together with groups that it connects."""
        self._times[node] = time
        kind = self._kinds[node] = self._kind(node)
        if kind is None:
            return
        joined = _Group(time, [node])
        for group in dict.fromkeys(self._of[e.node] for e in node.inputs if e.node in self._of):
            if kind == self._kinds[group.members[0]]:
                together = group.joined(joined, self._times)
                near = together.last - together.first <= MOST_SPAN
                if near and self._fits(together.members) and not self._returns(together):
                    joined = together
        for member in joined.members:
            self._of[member] = joined

    def _kind(self, node: Node) -> object:
        """Nodes of one kind may share a kernel; None for those that may not be fused at all."""
        op, params = node.op, node.params
        if not isinstance(op, Elementwise) or params is None or not node.inputs or node.mutated:
            return None
        outputs = [self._graph.specs[Entry(node, i)] for i in range(node.num_outputs)]
        types = {s.dtype for s in outputs} | {self._graph.specs[entry].dtype for entry in node.inputs}
        computed = next((t for t in (_SINGLE, _DOUBLE) if types <= t), None)
        if computed is None or len({s.shape for s in outputs}) != 1 or op.is_random:
            return None
        if op.expression(params) is None:
            return None
        group = node.attrs.get("__ctx_group__")
        return (
            computed, outputs[0].shape, node in self._graph.forward, group, PREPARED in node.attrs,
        )  # fmt: skip

    def _fits(self, members: list[Node]) -> bool:
        inputs, outputs = borders(self._graph, members)
        values = len(inputs)
        for node in members:
            assert isinstance(node.op, Elementwise) and node.params is not None
            e = node.op.expression(node.params)
            values += e.n_scalars + len(e.constants) + len(e.instructions) + len(e.outputs)
        return len(inputs) <= MOST_INPUTS and len(outputs) <= MOST_OUTPUTS and values <= MOST_VALUES

    def _returns(self, group: _Group) -> bool:
        """True when something that the group reads may depend on the group."""
        inside = set(group.members)
        stack = [e.node for node in group.members for e in node.inputs]
        seen: set[Node] = set()
        while stack:
            below = stack.pop()
            if below in seen or below in inside or below.op is None:
                continue
            other = self._of.get(below)
            if (self._times[below] if other is None else other.last) < group.first:
                continue  # it ran before the group began
            if len(seen) >= SEARCH_LIMIT:
                return True
            members = [below] if other is None else other.members
            seen.update(members)
            read = [e.node for member in members for e in member.inputs if e.node not in seen]
            if any(node in inside for node in read):
                return True
            stack.extend(read)
        return False


def borders(graph: Graph, members: list[Node]) -> tuple[list[Entry], list[Entry]]:
    """What a group reads from outside, and what is read of it outside."""
    inside = set(members)
    inputs = dict.fromkeys(e for node in members for e in node.inputs if e.node not in inside)
    outputs = [
        entry
        for node in members
        for entry in (Entry(node, i) for i in range(node.num_outputs))
        if entry in graph.head_set or any(reader not in inside for reader, _ in graph.readers.get(entry, ()))
    ]
    return list(inputs), outputs


def _fused(graph: Graph, members: list[Node], known: dict[Any, bool]) -> dict[Entry, Entry]:
    """The entries of a group and those of the node that replaces it.

    `known` remembers for which signatures there are kernels: deep networks repeat themselves.
    """
    inputs, outputs = borders(graph, members)
    scalars = [s for node in members if node.params is not None for s in node.params.scalars]
    builder = Builder(len(inputs), len(scalars))
    values = {entry: builder.input(i) for i, entry in enumerate(inputs)}
    n_scalars = 0
    for node in members:
        n_scalars = _inline(graph, node, builder, values, n_scalars)
    expression = builder.finish([values[entry] for entry in outputs])
    types = [graph.specs[entry].dtype for entry in outputs]
    names = [node.op.name for node in members if node.op is not None]
    params = FusedParams(expression, scalars, types, names)
    specs = [graph.specs[entry] for entry in inputs], [graph.specs[entry] for entry in outputs]
    key = (params.key, tuple(specs[0]), tuple(specs[1]))
    if key not in known:
        known[key] = graph.has_kernel(FUSED, params, *specs)
    if not known[key]:
        return {}  # each alone may have a kernel where all together have none
    attrs = {k: v for k, v in members[-1].attrs.items() if k in ("__ctx_group__", PREPARED)}
    made = graph.apply(FUSED, inputs, members[-1].name, params, attrs)
    return dict(zip(outputs, made, strict=True))


def _inline(graph: Graph, node: Node, builder: Builder, values: dict[Entry, Traced], n_scalars: int) -> int:
    """Writes a node's expression down behind the others; returns the number of scalars used so far."""
    assert isinstance(node.op, Elementwise) and node.params is not None
    expression = node.op.expression(node.params)
    local = [values[entry] for entry in node.inputs]
    local += [builder.scalar(n_scalars + i) for i in range(expression.n_scalars)]
    local += [builder.constant(c) for c in expression.constants]
    for step in expression.instructions:
        local.append(builder.emit(step.opcode, *(local[v] for v in step.operands), argument=step.argument))
    for i, value in enumerate(expression.outputs):
        entry = Entry(node, i)
        code = graph.specs[entry].dtype
        rounded = code in _SINGLE and dtypes.name(code) != "float32"
        result = local[value]
        # What would have been stored in 16 bits is rounded as if it were.
        values[entry] = builder.emit(Opcode.CAST, result, argument=code) if rounded else result
    return n_scalars + expression.n_scalars
