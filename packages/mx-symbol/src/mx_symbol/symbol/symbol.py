# SPDX-License-Identifier: Apache-2.0
"""Symbol: one or several entries of a graph, with MXNet's interface."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from mx_core.errors import ArgumentError, IndexOutOfBoundsError
from mx_core.files import atomic_write
from mx_symbol.graph import Entry, Node, auxiliary_variables, copy_graph, topological_order
from mx_symbol.symbol.arithmetic import Arithmetic
from mx_symbol.symbol.attribute import canonical, canonical_key, shown
from mx_symbol.symbol.fluent import Fluent
from mx_symbol.symbol.inference import InferenceMethods

if TYPE_CHECKING:
    from mx_core.context import Context
    from mx_ndarray import NDArray
    from mx_symbol.runtime.executor import Executor


#: attributes that only arrays have, and what a graph has instead
_OF_ARRAYS = {
    **dict.fromkeys(
        ("shape", "ndim", "size"),
        "infer_shape tells shapes from those of the inputs; operators take what follows them, as "
        "reshape(shape=(0, -1)), shape_array, slice_like and reshape_like do",
    ),
    "dtype": "infer_type tells types from those of the inputs",
    **dict.fromkeys(("context", "ctx"), "an executor runs where it is bound to arrays"),
    "grad": "an executor has the gradients, as grad_dict",
}


def _of_arrays(name: str) -> str:
    cure = _OF_ARRAYS.get(name)
    return f": a graph has no values, and nothing is known of them before it runs; {cure}" if cure else ""


class Symbol(Arithmetic, Fluent, InferenceMethods):
    """A symbolic expression: outputs of a graph that is computed once it is bound to arrays.

    Symbols are immutable except for attributes, cheap, and may be used from any thread.

    Threads: any may read, compose and bind one; attributes are set by one at a time.
    """

    __slots__ = ("__weakref__", "_entries")

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = tuple(entries)

    def __getattr__(self, name: str) -> Any:
        what = f"{type(self).__name__!r} object has no attribute {name!r}"
        raise AttributeError(what + _of_arrays(name), name=name, obj=self)

    # ---- structure ----

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The graph entries that are the outputs."""
        return self._entries

    @property
    def nodes(self) -> list[Node]:
        """Every node the outputs need, inputs before users."""
        return topological_order(entry.node for entry in self._entries)

    @property
    def name(self) -> str | None:
        """Name of the node, or None for a group of several."""
        nodes = {entry.node for entry in self._entries}
        return nodes.pop().name if len(nodes) == 1 else None

    def list_outputs(self) -> list[str]:
        """Names of the outputs: `fc1_output`."""
        return [entry.name for entry in self._entries]

    def list_inputs(self) -> list[str]:
        """Names of all variables, auxiliary states included."""
        return [node.name for node in self.nodes if node.is_variable]

    def list_arguments(self) -> list[str]:
        """Names of the variables that are not auxiliary states, in the order of `bind`."""
        order = self.nodes
        aux = auxiliary_variables(order)
        return [node.name for node in order if node.is_variable and node not in aux]

    def list_auxiliary_states(self) -> list[str]:
        """Names of the variables that operators write: running means, optimizer states."""
        order = self.nodes
        aux = auxiliary_variables(order)
        return [node.name for node in order if node in aux]

    @property
    def num_outputs(self) -> int:
        """Number of outputs."""
        return len(self._entries)

    def get_internals(self) -> Symbol:
        """A group of every visible output of every node."""
        return Symbol([Entry(node, i) for node in self.nodes for i in range(node.num_visible_outputs)])

    def get_children(self) -> Symbol | None:
        """A group of the inputs of the outputs' nodes; None for a variable."""
        nodes = dict.fromkeys(entry.node for entry in self._entries)
        inputs = [entry for node in nodes for entry in node.inputs]
        return Symbol(inputs) if inputs else None

    def _gen_atomic_symbol(self) -> Symbol:
        """The operator of this symbol with variables as inputs, and all its visible outputs."""
        from mx_symbol.symbol.compose import alone

        made = alone(self._node())
        return Symbol([Entry(made, i) for i in range(made.num_visible_outputs)])

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Symbol]:
        return (Symbol((entry,)) for entry in self._entries)

    def __getitem__(self, index: int | str | slice) -> Symbol:
        if isinstance(index, slice):
            chosen = self._entries[index]
            if not chosen:
                raise IndexOutOfBoundsError(f"[Symbol] {index} leaves none of {len(self)} outputs")
            return Symbol(chosen)
        if isinstance(index, str):
            found = [entry for entry in self._entries if entry.name == index]
            if len(found) == 1:
                return Symbol(found)
            what = "several outputs have" if found else "no output has"
            listed = ", ".join(self.list_outputs()[:20])
            raise ArgumentError(f"[Symbol] {what} the name {index!r}; outputs: {listed}")
        if not isinstance(index, int):
            raise TypeError(f"[Symbol] an output is an int, a name or a slice, not {index!r}")
        if not -len(self) <= index < len(self):
            raise IndexOutOfBoundsError(f"[Symbol] output {index} of {len(self)}")
        return Symbol((self._entries[index],))

    def __call__(self, *args: Symbol, name: str | None = None, **kwargs: Symbol) -> Symbol:
        """A new symbol with variables replaced: `net(data=other)`.

        Raises
        ------
        ArgumentError  a name that is no variable; inputs by position and by name at once
        """
        from mx_symbol.symbol.compose import substitute

        for value in (*args, *kwargs.values()):
            if not isinstance(value, Symbol) or len(value) != 1:
                raise TypeError(f"[compose] expected symbols with one output, got {value!r}")
        given = [value.entries[0] for value in args]
        named = {key: value.entries[0] for key, value in kwargs.items()}
        return Symbol(substitute(self._entries, given, named, name))

    def __copy__(self) -> Symbol:
        return Symbol(copy_graph(self._entries))

    def __deepcopy__(self, memo: dict[int, Any]) -> Symbol:
        return Symbol(copy_graph(self._entries))

    def __reduce__(self) -> tuple[Any, ...]:
        from mx_symbol.serialization.json_reader import load_json

        return load_json, (self.tojson(remove_amp_cast=False),)

    def __repr__(self) -> str:
        if len(self._entries) == 1:
            return f"<Symbol {self.name}>"
        return f"<Symbol group [{', '.join(entry.node.name for entry in self._entries)}]>"

    # ---- attributes ----

    def attr(self, key: str) -> str | None:
        """An attribute or a given parameter of the node, its `name`, or None; a group of several nodes has none."""
        node = self._entries[0].node
        if any(entry.node is not node for entry in self._entries):
            return None
        attrs = node.attributes()
        return attrs.get(key, attrs.get(canonical_key(key), node.name if key == "name" else None))

    def list_attr(self, recursive: bool = False) -> dict[str, str]:
        """Attributes and given parameters of the node; of a group, those of its first output.

        Raises
        ------
        DeprecationWarning  `recursive` is set: `attr_dict` shows all nodes
        """
        if recursive:
            raise DeprecationWarning(
                "Symbol.list_attr with recursive=True is gone; attr_dict has the attributes of all nodes"
            )
        return shown(self._entries[0].node.attributes())

    def attr_dict(self) -> dict[str, dict[str, str]]:
        """Attributes of every node that has any, by name."""
        return {node.name: shown(a) for node in self.nodes if (a := node.attributes())}

    def _set_attr(self, **kwargs: str) -> None:
        """Sets attributes of the node; values must be text."""
        for key, value in kwargs.items():
            if not isinstance(value, str):
                raise ArgumentError(f"[{self.name}] {key}: expected text, got {value!r}")
        self._node().attrs.update(canonical(kwargs))

    def _node(self) -> Node:
        nodes = {entry.node for entry in self._entries}
        if len(nodes) != 1:
            raise ArgumentError("[Symbol] a group has no attributes of its own")
        return nodes.pop()

    # ---- files ----

    def tojson(self, remove_amp_cast: bool = True) -> str:
        """The graph as MXNet's symbol JSON.

        Parameters
        ----------
        remove_amp_cast : bool
            Leave out the casts that mixed precision put in.
        """
        from mx_symbol.serialization.json_writer import to_json

        return to_json(self._entries, remove_amp_cast)

    def save(self, fname: str, remove_amp_cast: bool = True) -> None:
        """Writes `tojson()` to a file, which is either complete or untouched afterwards.

        Raises
        ------
        ArgumentError  a name or attribute holds half of a surrogate pair, which UTF-8 cannot
        OSError  names the file
        """
        text = self.tojson(remove_amp_cast)
        try:
            data = text.encode("utf-8")
        except UnicodeEncodeError as error:
            shown = error.object[max(0, error.start - 20) : error.end + 20]
            raise ArgumentError(f"[Symbol.save] {fname}: {error.reason}: {shown!r}") from None
        with atomic_write(fname) as file:
            file.write(data)

    @staticmethod
    def fromjson(json_str: str) -> Symbol:
        """The symbol a JSON text describes; see `load_json`."""
        from mx_symbol.serialization.json_reader import load_json

        return load_json(json_str)

    def debug_str(self) -> str:
        """The graph as readable text."""
        from mx_symbol.graph.show import debug_text

        return debug_text(self._entries)

    # ---- execution ----

    def simple_bind(self, ctx: Context | None = None, *args: Any, **kwargs: Any) -> Executor:
        """Infers shapes, allocates arrays and binds; see `mx_symbol.runtime.bind.simple_bind`."""
        from mx_symbol.runtime.bind import simple_bind

        return simple_bind(self, ctx, *args, **kwargs)

    def bind(self, ctx: Context | None, args: Any, *rest: Any, **kwargs: Any) -> Executor:
        """Binds to given arrays; see `mx_symbol.runtime.bind.bind`."""
        from mx_symbol.runtime.bind import bind

        return bind(self, ctx, args, *rest, **kwargs)

    def eval(self, ctx: Context | None = None, **kwargs: NDArray) -> list[NDArray]:
        """Computes the outputs from arrays by name; asynchronous."""
        return self.bind(ctx, kwargs, grad_req="null").forward()

    def gradient(self, wrt: Sequence[str] | str) -> Symbol:
        """Gradients of the sum of all outputs, one per named argument, as a symbol.

        The result takes the same arguments, so it can be differentiated again.
        """
        from mx_symbol.graph.gradient import gradient_symbol

        names = [wrt] if isinstance(wrt, str) else list(wrt)
        return Symbol(gradient_symbol(self._entries, names))


def Variable(
    name: str,
    attr: dict[str, str] | None = None,
    shape: Sequence[int] | None = None,
    lr_mult: float | None = None,
    wd_mult: float | None = None,
    dtype: Any = None,
    init: Any = None,
    stype: str | None = None,
    **kwargs: str,
) -> Symbol:
    """A variable: an input of graphs.

    Parameters
    ----------
    shape : sequence of int, optional
        0 stands for an unknown dimension.
    lr_mult, wd_mult : float, optional
        Factors for learning rate and weight decay.
    init : initializer or str, optional
        How to fill the array.
    **kwargs : str
        Further attributes, written `__key__`.
    """
    from mx_symbol.symbol.variable import variable_attributes

    if not isinstance(name, str):
        raise TypeError(f"[Variable] name: expected text, got {name!r}")
    attrs = variable_attributes(attr, shape, lr_mult, wd_mult, dtype, init, stype, kwargs)
    return Symbol((Entry(Node(None, None, name, attrs)),))


var = Variable


def Group(symbols: Sequence[Symbol]) -> Symbol:
    """A symbol with the outputs of all given ones.

    Raises
    ------
    TypeError  something else than symbols came, or nothing
    """
    if not symbols:
        raise TypeError(f"[Group] symbols: expected at least one symbol, got {symbols!r}")
    for symbol in symbols:
        if not isinstance(symbol, Symbol):
            raise TypeError(f"[Group] symbols: expected a list of symbols, got {symbol!r} in it")
    return Symbol([entry for symbol in symbols for entry in symbol.entries])
