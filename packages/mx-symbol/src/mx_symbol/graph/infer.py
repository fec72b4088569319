# SPDX-License-Identifier: Apache-2.0
"""Shapes and element types of a whole graph: every operator's rule, run to a common fixed point.

Knowledge flows both ways, from inputs to outputs and back, so any part may be left out. Inside,
−1 is an unknown dimension and None an unknown rank or type.
"""

from __future__ import annotations

import difflib
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from mx_core import dtypes
from mx_core.errors import ArgumentError, DTypeError, FileFormatError, ShapeError
from mx_symbol._core import FlatGraph, Inference
from mx_symbol.graph import Entry, Node
from mx_symbol.graph.shape_mode import is_np_shape
from mx_symbol.graph.text import parse_shape

T = TypeVar("T")
#: names in a message
_MOST_SHOWN = 12
PartialShape = tuple[int, ...]
Rule = Callable[
    [Node, tuple[T | None, ...], tuple[T | None, ...]], tuple[Sequence[T | None], Sequence[T | None]]
]
Merge = Callable[[Entry, T | None, T | None], T | None]


def _inference(
    graph: FlatGraph, rule: Rule[T], merge: Merge[T], known: Callable[[Entry], T | None] | None
) -> Inference[T]:
    """The state before anything runs; `known` tells what the graph reads from outside."""
    state = Inference(graph, rule, merge)
    if known is not None:
        for entry in graph.outside:
            state.assign(entry, known(entry))
    return state


def _shape_rule(
    node: Node, inputs: tuple[PartialShape | None, ...], outputs: tuple[PartialShape | None, ...]
) -> tuple[Sequence[PartialShape | None], Sequence[PartialShape | None]]:
    if not inputs:
        stated = open_shape(node)
        if stated is not None:
            return inputs, (_merge_shapes(Entry(node), stated, outputs[0]),)
    return node.facts.infer_shapes(inputs, outputs, node.name)


def open_shape(node: Node) -> PartialShape | None:
    """The shape that a node without inputs states with unknown dimensions, `zeros((0, 3))`; else None.

    Its use tells the dimensions, as that of the first state of a recurrent network tells the batch.
    """
    shape = getattr(node.params, "shape", None)
    if (
        node.inputs
        or node.num_outputs != 1
        or not isinstance(shape, tuple)
        or 0 not in shape
        or is_np_shape()
    ):
        return None
    return tuple(-1 if extent == 0 else extent for extent in shape)


def open_nodes(graph: FlatGraph) -> list[Node]:
    """The nodes of which `open_shape` tells something."""
    return [node for node in graph.select(lambda facts: not facts.inputs) if open_shape(node) is not None]


def _type_rule(
    node: Node, inputs: tuple[int | None, ...], outputs: tuple[int | None, ...]
) -> tuple[Sequence[int | None], Sequence[int | None]]:
    return node.facts.infer_types(inputs, outputs, node.name)


def _merge_shapes(entry: Entry, old: PartialShape | None, new: PartialShape | None) -> PartialShape | None:
    if old is None or new is None:
        return new if old is None else old
    if len(old) == len(new) and all(a == b or -1 in (a, b) for a, b in zip(old, new, strict=True)):
        return tuple(max(a, b) for a, b in zip(old, new, strict=True))
    raise ShapeError(f"[{entry.name}] expected shape {old}, got {new}")


def _merge_types(entry: Entry, old: int | None, new: int | None) -> int | None:
    if old is None or new is None or old == new:
        return new if old is None else old
    raise DTypeError(f"[{entry.name}] expected {dtypes.name(old)}, got {dtypes.name(new)}")


def shape_inference(
    graph: FlatGraph,
    given: Mapping[str, PartialShape | None],
    known: Callable[[Entry], PartialShape | None] | None = None,
) -> Inference[PartialShape]:
    """Shapes of a graph from those of some variables, by name; `__shape__` fills the others.

    `known` tells the shapes of what the graph reads of nodes that are not in it.

    Raises
    ------
    ShapeError  contradiction; names operator, node, argument and both shapes
    """
    state = _inference(graph, _shape_rule, _merge_shapes, known)
    for node in graph.variables:
        shape = given.get(node.name)
        if shape is None and "__shape__" in node.attrs:
            shape = legacy_in(parse_shape(node.attrs["__shape__"], node.name))
        state.assign(Entry(node), shape)
    state.run()
    return state


def type_inference(
    graph: FlatGraph,
    given: Mapping[str, int | None],
    default: int | None = None,
    known: Callable[[Entry], int | None] | None = None,
) -> Inference[int]:
    """Type codes of a graph; with `default`, variables that stay unknown get that one.

    `known` tells the types of what the graph reads of nodes that are not in it. What is told here comes before
    the defaults that operators have for what they are not told.

    Raises
    ------
    DTypeError  contradiction; names operator, node, argument and both types
    """
    state = _inference(graph, _type_rule, _merge_types, known)
    variables = graph.variables
    for node in variables:
        code = given.get(node.name)
        if code is None and "__dtype__" in node.attrs:
            code = _stated_type(node)
        state.assign(Entry(node), code)
    state.run()
    if default is not None:
        for node in variables:
            if state.get(Entry(node)) is None:
                state.assign(Entry(node), default)
                state.run()
    return state


def _stated_type(node: Node) -> int | None:
    text = node.attrs["__dtype__"]
    if text == "-1":
        return None
    try:
        return dtypes.code(int(text) if text.isdigit() else text)
    except DTypeError as error:
        raise FileFormatError(f"[{node.name}] __dtype__: {error}") from None


def shape_of(value: Any, what: str) -> Sequence[int]:
    """A given shape.

    Raises
    ------
    TypeError  it is no tuple or list of integers
    """
    if not isinstance(value, (tuple, list)):
        raise TypeError(f"[{what}] expected a tuple of int as shape, got {value!r}")
    try:
        return [operator.index(extent) for extent in value]
    except TypeError:
        raise TypeError(f"[{what}] expected a tuple of int as shape, got {value!r}") from None


def legacy_in(shape: Sequence[int] | None) -> PartialShape | None:
    """A shape in MXNet's convention (0: unknown dimension, (): unknown rank), or in NumPy's, converted to ours."""
    if is_np_shape():
        return None if shape is None else tuple(max(int(d), -1) for d in shape)
    if shape is None or len(shape) == 0:
        return None
    return tuple(-1 if int(d) <= 0 else int(d) for d in shape)


def legacy_out(shape: PartialShape | None) -> PartialShape:
    """The inverse: a shape in MXNet's convention, or in NumPy's, which has None for an unknown rank."""
    if is_np_shape():
        return shape  # type: ignore[return-value]  # None in this mode alone
    return () if shape is None else tuple(0 if d == -1 else d for d in shape)


def complete(shape: PartialShape | None) -> bool:
    """True when rank and every dimension are known."""
    return shape is not None and -1 not in shape


def check_names(given: Iterable[str], known: Sequence[str], what: str) -> None:
    """ArgumentError for a name that no variable has."""
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(str(name), known, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            more = f", … ({len(known)} in all)" if len(known) > _MOST_SHOWN else ""
            raise ArgumentError(
                f"[{what}] no argument is named {name!r}{hint}; arguments: {', '.join(known[:_MOST_SHOWN])}{more}"
            )
