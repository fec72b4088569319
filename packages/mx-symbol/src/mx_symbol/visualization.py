# SPDX-License-Identifier: Apache-2.0
"""`mx.viz`: a network as a table of layers, and as a drawing by Graphviz."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mx_core.errors import ArgumentError, ShapeError
from mx_symbol.graph import Entry, Node, auxiliary_variables
from mx_symbol.graph.infer import complete, legacy_out
from mx_symbol.symbol import Symbol

if TYPE_CHECKING:
    from graphviz import Digraph

__all__ = ["plot_network", "print_summary"]

Shapes = Mapping[str, Sequence[int]]

_HEADINGS = ("Layer (type)", "Output Shape", "Param #", "Previous Layer")
#: inputs of operators that are never parameters
_NOT_LEARNED = frozenset(("data", "label", "state", "state_cell"))
_PARAMETERS = (
    "_weight",
    "_bias",
    "_beta",
    "_gamma",
    "_moving_var",
    "_moving_mean",
    "_running_var",
    "_running_mean",
)
#: colours of groups of operators; the last is that of all others
_COLOURS = {
    "#fb8072": ("Convolution", "FullyConnected"),
    "#bebada": ("BatchNorm",),
    "#ffffb3": ("Activation", "LeakyReLU"),
    "#80b1d3": ("Pooling",),
    "#fdb462": ("Concat", "Flatten", "Reshape"),
    "#b3de69": ("Softmax",),
    "#fccde5": (),
}
_OF_VARIABLES = "#8dd3c7"


def print_summary(
    symbol: Symbol,
    shape: Shapes | None = None,
    line_length: int = 120,
    positions: Sequence[float] = (0.44, 0.64, 0.74, 1.0),
) -> None:
    """Prints a table: every layer, the shape of its output, its number of parameters, what comes before it.

    A parameter that several layers share counts with the first of them. Shapes are without the first axis.

    Parameters
    ----------
    symbol : Symbol
    shape : mapping, optional
        Shapes of inputs. Without them nothing is known of most outputs, and parameters count only where
        their shapes follow from the layer alone.
    line_length : int
        Characters of a line.
    positions : four numbers
        Where the columns end: shares of a line, or characters.

    Raises
    ------
    TypeError  not a symbol
    ShapeError  the shapes given do not determine all others
    """
    _check("print_summary", symbol)
    ends = [int(p * line_length) for p in positions] if positions[-1] <= 1 else [int(p) for p in positions]
    if len(ends) != len(_HEADINGS) or sorted(ends) != ends:
        raise ArgumentError(f"[print_summary] positions: expected 4 growing numbers, got {tuple(positions)}")
    shapes = _Shapes("print_summary", symbol, shape)
    print("_" * line_length)
    print(_line(_HEADINGS, ends))
    total, counted, rows = 0, set[Node](), list(_rows(symbol, shape or {}))
    for i, (node, before) in enumerate(rows):
        print("_" * line_length if i else "=" * line_length)
        own = [entry.node for entry in _parameters(node, shape or {}) if entry.node not in counted]
        counted.update(own)
        n = sum(shapes.elements(Entry(variable)) or _stated(node, variable) for variable in own)
        total += n
        kind = "null" if node.op is None else node.op.name
        outputs = ", ".join(
            filter(None, (shapes.text(Entry(node, k)) for k in range(node.num_visible_outputs)))
        )
        print(_line((f"{node.name}({kind})", outputs, str(n), before[0] if before else ""), ends))
        for name in before[1:]:
            print(_line(("", "", "", name), ends))
    print("=" * line_length)
    print(f"Total params: {total}")
    print("_" * line_length)


def plot_network(
    symbol: Symbol,
    title: str = "plot",
    save_format: str = "pdf",
    shape: Shapes | None = None,
    dtype: Any = None,
    node_attrs: Mapping[str, str] | None = None,
    hide_weights: bool = True,
) -> Digraph:
    """A drawing of a network, inputs at the bottom; needs the package graphviz (`mx-symbol[plot]`).

    Parameters
    ----------
    symbol : Symbol
    title : str
        Name of the drawing, and of the file that its `render()` and `view()` write.
    save_format : str
        Of that file.
    shape : mapping, optional
        Shapes of inputs; given, the lines are labelled with shapes, without the first axis.
    dtype : optional
        Accepted as in MXNet; a drawing shows no types.
    node_attrs : mapping, optional
        Graphviz attributes of all nodes, such as `{"shape": "oval", "fixedsize": "false"}`.
    hide_weights : bool
        Leaves variables out that are named like parameters.

    Returns
    -------
    graphviz.Digraph

    Raises
    ------
    TypeError  not a symbol
    ImportError  graphviz is not installed
    ShapeError  the shapes given do not determine all others
    """
    _check("plot_network", symbol)
    try:
        from graphviz import Digraph
    except ImportError as error:
        raise ImportError("[plot_network] needs the package graphviz: pip install graphviz") from error
    shapes = _Shapes("plot_network", symbol, shape)
    attributes = {"shape": "box", "fixedsize": "true", "width": "1.3", "height": "0.8034", "style": "filled"}
    attributes |= node_attrs or {}
    drawing = Digraph(name=title, format=save_format)
    shown = [node for node in symbol.nodes if not (hide_weights and _is_weight(node))]
    for node in shown:
        own = {"fillcolor": _colour(node)}
        if node.is_variable:
            own["shape"] = "oval"
        drawing.node(name=node.name, label=_label(node), **{**attributes, **own})
    for node in shown:
        for entry in node.inputs:
            if not (hide_weights and _is_weight(entry.node)):
                text = "" if shape is None else shapes.text(entry)
                drawing.edge(
                    tail_name=node.name, head_name=entry.node.name, dir="back", arrowtail="open", label=text
                )
    return drawing


class _Shapes:
    """What is known of the shapes in a graph."""

    def __init__(self, where: str, symbol: Symbol, given: Shapes | None) -> None:
        self._order, self._state = symbol._infer_shapes((), dict(given or {}))
        open_ = [e for e in symbol.entries if not complete(self._state.get(e))] if given is not None else []
        if open_:
            names = ", ".join(entry.name for entry in open_)
            raise ShapeError(f"[{where}] shape: the given shapes do not determine those of {names}")

    def elements(self, entry: Entry) -> int:
        """How many it has; 0 while that is not known."""
        found, n = self._state.get(entry), 1
        if not complete(found) or found is None:
            return 0
        for extent in found:
            n *= extent
        return n

    def text(self, entry: Entry) -> str:
        """Such as 64x56x56."""
        found = self._state.get(entry)
        return "x".join(map(str, legacy_out(found)[1:])) if complete(found) else ""


def _check(where: str, symbol: Any) -> None:
    if not isinstance(symbol, Symbol):
        raise TypeError(f"[{where}] expected a Symbol, got {type(symbol).__name__}")


def _rows(symbol: Symbol, given: Shapes) -> Iterator[tuple[Node, list[str]]]:
    """The nodes of the table, each with the names of those before it."""
    order = symbol.nodes
    hidden = {
        n for i, n in enumerate(order) if n.is_variable and i and (n.name not in given or _is_label(n, order))
    }
    for node in order:
        if node not in hidden:
            yield node, [entry.node.name for entry in node.inputs if entry.node not in hidden]


def _is_label(variable: Node, order: Sequence[Node]) -> bool:
    return any(
        name == "label" and entry.node is variable
        for node in order
        if not node.is_variable
        for name, entry in zip(node.input_names, node.inputs, strict=True)
    )


def _stated(node: Node, variable: Node) -> int:
    """Elements of a parameter that the arguments of its layer state: of a bias, and of the weight of Embedding."""
    name = next(n for n, entry in zip(node.input_names, node.inputs, strict=True) if entry.node is variable)
    if name == "bias":
        return int(getattr(node.params, "num_filter", 0) or getattr(node.params, "num_hidden", 0))
    if name == "weight" and node.op is not None and node.op.name == "Embedding":
        return int(getattr(node.params, "input_dim", 0)) * int(getattr(node.params, "output_dim", 0))
    return 0


def _parameters(node: Node, given: Shapes) -> Iterator[Entry]:
    """Variables that a layer learns."""
    states = auxiliary_variables([node])
    for name, entry in zip(node.input_names, node.inputs, strict=True) if node.op is not None else ():
        variable = entry.node
        if (
            variable.is_variable
            and variable not in states
            and variable.name not in given
            and name not in _NOT_LEARNED
        ):
            yield entry


def _line(fields: Sequence[str], ends: Sequence[int]) -> str:
    text = ""
    for field, end in zip(fields, ends, strict=True):
        text = (text + field)[:end].ljust(end)
    return text


def _is_weight(node: Node) -> bool:
    return node.is_variable and node.name.endswith(_PARAMETERS)


def _colour(node: Node) -> str:
    if node.op is None:
        return _OF_VARIABLES
    return next((colour for colour, kinds in _COLOURS.items() if node.op.name in kinds), list(_COLOURS)[-1])


def _label(node: Node) -> str:
    """The operator with what matters of it, for the commonest ones; the name of others."""
    kind: str = "" if node.op is None else node.op.name
    p: Any = node.params
    if kind == "Convolution":
        strides = _times(p.stride) if p.stride else "1"
        return f"Convolution\n{_times(p.kernel)}/{strides}, {p.num_filter}"
    if kind == "FullyConnected":
        return f"FullyConnected\n{p.num_hidden}"
    if kind in ("Activation", "LeakyReLU"):
        return f"{kind}\n{p.act_type}"
    if kind == "Pooling":
        strides = _times(p.stride) if p.stride else "1"
        return f"Pooling\n{p.pool_type}, {_times(p.kernel)}/{strides}"
    return node.name


def _times(numbers: Sequence[int]) -> str:
    return "x".join(map(str, numbers))
