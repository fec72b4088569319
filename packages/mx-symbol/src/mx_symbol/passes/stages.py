# SPDX-License-Identifier: Apache-2.0
"""The graph of a symbol at every stage of its optimisation, for looking at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from mx_core.context import Context, current_context
from mx_core.kernels import TensorSpec
from mx_symbol._core import FlatGraph
from mx_symbol.graph import Entry, topological_order
from mx_symbol.graph.infer import check_names, complete, shape_inference, type_inference
from mx_symbol.graph.ir import Graph
from mx_symbol.passes import Passes
from mx_symbol.passes.bound_graph import FLOAT32, build, optimized

if TYPE_CHECKING:
    from mx_symbol.symbol import Symbol


class Stage(NamedTuple):
    """The graph before and after one pass."""

    stage: str
    name: str
    before: Graph
    after: Graph

    @property
    def changed(self) -> bool:
        """True when the pass did something."""
        return self.before is not self.after


def trace(
    symbol: Symbol,
    shapes: Mapping[str, Sequence[int]],
    is_train: bool = False,
    passes: str | None = None,
    context: Context | None = None,
) -> Iterator[Stage]:
    """What each pass does to a symbol.

    Parameters
    ----------
    shapes : shapes of arguments by name; the others are inferred
    is_train : bool
        The program of a training step, with gradients of all arguments that are not in `shapes`; else that
        of inference.
    passes : which run, as in `MX_PASSES`

    Raises
    ------
    ArgumentError  a shape has the name of no argument
    ShapeError  contradiction, or a shape that stays unknown

    Examples
    --------
    >>> for stage in trace(net, {"data": (1, 3, 224, 224)}):
    ...     print(stage.stage, stage.name, len(stage.before.nodes), len(stage.after.nodes))
    """
    check_names(shapes, symbol.list_inputs(), "trace")
    place = current_context() if context is None else context
    found: list[Stage] = []

    def observe(stage: str, name: str, before: Graph, after: Graph) -> None:
        found.append(Stage(stage, name, before, after))

    variables = [node.name for node in topological_order(e.node for e in symbol.entries) if node.is_variable]
    requests = {name: "write" for name in variables if name not in shapes} if is_train else {}
    given = {name: tuple(shape) for name, shape in shapes.items()}
    graph = build(symbol.entries, given, {}, requests, place, Passes.parse(passes), observe)
    plain = Graph(graph.heads, tuple(graph.grads.values()), dict(graph.specs), place, is_train)
    if not found:
        found.append(Stage("graph", "nothing", plain, plain))
    elif is_train:
        found.append(Stage("graph", "gradients", found[-1].after, plain))
    optimized(graph, bool(graph.grads), is_train, place, observe)
    yield from found


def written(symbol: Symbol, shapes: Mapping[str, Sequence[int]]) -> Graph:
    """The graph as it is written, with the shapes that can be told; others have no entry in `specs`.

    Raises
    ------
    ArgumentError  a shape has the name of no argument
    ShapeError, DTypeError  contradiction
    """
    check_names(shapes, symbol.list_inputs(), "trace")
    order = topological_order(entry.node for entry in symbol.entries)
    graph = FlatGraph(order)
    dims = shape_inference(graph, {name: tuple(shape) for name, shape in shapes.items()})
    codes = type_inference(graph, {}, FLOAT32)
    specs = {}
    for node in order:
        for entry in (Entry(node, i) for i in range(node.num_outputs)):
            shape, code = dims.get(entry), codes.get(entry)
            if shape is not None and complete(shape):
                specs[entry] = TensorSpec(shape, FLOAT32 if code is None else code)
    return Graph(symbol.entries, (), specs, current_context(), False)
