# SPDX-License-Identifier: Apache-2.0
"""The logarithm of softmax of which one class per row is read, and the gradient of that, as two operators.

The cross entropy of labels reads one logarithm per row, and its gradient follows from the probabilities. So no array
of zeros with one number a row is made, and powers are computed once. It is done where kernels for
`_fused_log_softmax_pick` and its gradient take the results; elsewhere the graph stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mx_core.operator import NoParams, Operator, Params, opt
from mx_core.operator.declaration import ReferenceContext
from mx_symbol.graph import Entry, Node
from mx_symbol.graph.ir import Graph, parameters


class PickedSoftmaxParam(Params):
    """The shape of the result."""

    keepdims: bool = opt(False, "keep the last axis with extent 1")


class FusedLogSoftmaxPick(Operator[PickedSoftmaxParam]):
    """log_softmax(data) at a label per row, which is clipped; and the probabilities, which the gradient reads."""

    name = "_fused_log_softmax_pick"
    arguments = ("data", "label")
    results = ("output", "probabilities")
    differentiable = False  # after differentiation
    custom_gradient = True

    def infer_shape(self, p: Any, s: Any) -> None:
        """Data (…, C) and labels of one element per row."""
        s.unify(["data", "probabilities"])
        data = s.known("data")
        if data is not None:
            s.assign("output", (*data[:-1], 1) if p.keepdims else data[:-1] or (1,))

    def infer_type(self, p: Any, t: Any) -> None:
        """That of data; labels have any."""
        t.unify(["data", "output", "probabilities"])

    def inplace(self, p: Any) -> tuple[tuple[int, int], ...]:
        """Probabilities may overwrite data."""
        return ((0, 1),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """In the type of data."""
        x, label = inputs
        shifted = x - x.max(-1, keepdims=True)
        powers = np.exp(shifted)
        total = powers.sum(-1, keepdims=True)
        y = np.take_along_axis(shifted - np.log(total), _classes(x, label), -1)
        return (y if p.keepdims or x.ndim == 1 else y[..., 0], powers / total)


class FusedLogSoftmaxPickGradient(Operator[NoParams]):
    """out_grad · (1 at the label − probabilities)."""

    name = "_fused_log_softmax_pick_gradient"
    arguments = ("out_grad", "label", "probabilities")
    differentiable = False  # after differentiation
    custom_gradient = True

    def infer_shape(self, p: Any, s: Any) -> None:
        """As probabilities."""
        s.unify(["probabilities", "output"])

    def infer_type(self, p: Any, t: Any) -> None:
        """That of probabilities; labels have any."""
        t.unify(["out_grad", "probabilities", "output"])

    def inplace(self, p: Any) -> tuple[tuple[int, int], ...]:
        """The gradient may overwrite probabilities."""
        return ((2, 0),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """In the type of probabilities."""
        out_grad, label, y = inputs
        head = out_grad.reshape(*y.shape[:-1], 1)
        return (head * (np.arange(y.shape[-1]) == _classes(y, label)) - y * head,)


def _classes(x: Any, label: Any) -> Any:
    whole = np.nan_to_num(label).reshape(*x.shape[:-1], 1)
    return np.clip(whole, 0, x.shape[-1] - 1).astype(np.int64)


FUSED_LOG_SOFTMAX_PICK = FusedLogSoftmaxPick()
FUSED_LOG_SOFTMAX_PICK_GRADIENT = FusedLogSoftmaxPickGradient()


def fuse_picked_softmax(graph: Graph) -> Graph:
    """Makes one operator of log_softmax and pick, and one of their gradients."""
    mapping: dict[Entry, Entry] = {}
    for node in graph.find("log_softmax"):
        found = _found(graph, node)
        if found is not None:
            mapping.update(_made(graph, node, found))
    return graph.replace(mapping)


class _Found(NamedTuple):
    """What reads the logarithms: pick, and in a training step the two gradients."""

    pick: Node
    gradient: tuple[Node, Node] | None


def _found(graph: Graph, node: Node) -> _Found | None:
    logarithms = Entry(node)
    if not _plain(graph, node) or logarithms in graph.head_set:
        return None
    readers: dict[str, list[Node]] = {}
    for reader, position in graph.readers.get(logarithms, ()):
        assert reader.op is not None
        readers.setdefault(f"{reader.op.name} {position}", []).append(reader)
    picks = readers.pop("pick 0", [])
    if len(picks) != 1 or not _picks_last(graph, picks[0]):
        return None
    if not readers:
        return _Found(picks[0], None)
    backs, ends = readers.pop("_backward_pick 1", []), readers.pop("_backward_log_softmax 1", [])
    if readers or len(backs) != 1 or len(ends) != 1:
        return None
    if graph.only_reader(Entry(backs[0])) != (ends[0], 0) or backs[0].params != picks[0].params:
        return None
    if backs[0].inputs[2] != picks[0].inputs[1]:
        return None
    return _Found(picks[0], (backs[0], ends[0]))


def _plain(graph: Graph, node: Node) -> bool:
    """True along the last axis, of data as they are."""
    p: Any = node.params
    rank = len(graph.specs[node.inputs[0]].shape)
    last = rank > 0 and p.axis in (-1, rank - 1)
    return last and p.temperature is None and p.dtype is None and not p.use_length


def _picks_last(graph: Graph, pick: Node) -> bool:
    p: Any = pick.params
    return p.mode == "clip" and p.axis in (-1, len(graph.specs[pick.inputs[0]].shape) - 1)


def _made(graph: Graph, node: Node, found: _Found) -> dict[Entry, Entry]:
    p: Any = found.pick.params
    data, label = node.inputs[0], found.pick.inputs[1]
    first = _applied(graph, FUSED_LOG_SOFTMAX_PICK, (data, label), found.pick, keepdims=p.keepdims)
    if first is None:
        return {}
    mapping = {Entry(found.pick): first[0]}
    if found.gradient is not None:
        back, end = found.gradient
        made = _applied(graph, FUSED_LOG_SOFTMAX_PICK_GRADIENT, (back.inputs[0], label, first[1]), end)
        if made is None:
            return {}
        mapping[Entry(end)] = made[0]
    return mapping


def _applied(
    graph: Graph, op: Operator[Any], inputs: Sequence[Entry], instead: Node, **values: Any
) -> tuple[Entry, ...] | None:
    """A new node, where it has a kernel."""
    params = parameters(op, values)
    made = graph.apply(op, inputs, instead.name, params, attrs=instead.attrs)
    specs = [graph.specs[entry] for entry in made]
    return made if graph.has_kernel(op, params, [graph.specs[entry] for entry in inputs], specs) else None
