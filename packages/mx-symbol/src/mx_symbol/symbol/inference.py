# SPDX-License-Identifier: Apache-2.0
"""`infer_shape`, `infer_type` and their partial forms: MXNet's conventions around `infer`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_core.errors import ArgumentError, MXNetError
from mx_symbol._core import FlatGraph, Inference
from mx_symbol.graph import Entry, Node, auxiliary_variables
from mx_symbol.graph.infer import (
    PartialShape,
    check_names,
    complete,
    legacy_in,
    legacy_out,
    shape_inference,
    shape_of,
    type_inference,
)
from mx_symbol.graph.shape_mode import is_np_shape
from mx_symbol.graph.text import storage_type

Shape = tuple[int, ...]


class InferenceMethods:
    """Mixed into Symbol. Threads: any; a symbol is only read."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def nodes(self) -> list[Node]: ...

        @property
        def entries(self) -> tuple[Entry, ...]: ...

        def list_arguments(self) -> list[str]: ...

        def list_inputs(self) -> list[str]: ...

    def infer_shape(
        self, *args: Sequence[int] | None, **kwargs: Sequence[int]
    ) -> tuple[list[Shape] | None, list[Shape] | None, list[Shape] | None]:
        """Shapes of arguments, outputs and auxiliary states from those that are given.

        Parameters
        ----------
        *args, **kwargs : shapes
            By position of the arguments or by name; 0 is an unknown dimension, () and None an
            unknown shape; in NumPy's mode (`mx.util.np_shape`) −1 and None. Knowledge flows from
            outputs to inputs too.

        Returns
        -------
        (argument shapes, output shapes, auxiliary shapes), or (None, None, None) with a warning
        that lists what is unknown

        Raises
        ------
        ShapeError  contradiction; names operator, node, argument and both shapes
        """
        order, state = self._infer_shapes(args, kwargs)
        groups = self._groups(order)
        values = [[state.get(entry) for entry in group] for group in groups]
        if all(complete(shape) for group in values for shape in group):
            arguments, outputs, aux = ([shape or () for shape in group] for group in values)
            return arguments, outputs, aux
        unknown = [
            f"\t{entry.name}: {legacy_out(state.get(entry))}"
            for entry in groups[0]
            if not complete(state.get(entry))
        ]
        sign = "-1 is an unknown dimension, None" if is_np_shape() else "0 is an unknown dimension, ()"
        warnings.warn(
            f"Cannot decide shape for the following arguments ({sign} an unknown shape); "
            "give more of them:\n" + "\n".join(unknown),
            stacklevel=2,
        )
        return None, None, None

    def infer_shape_partial(
        self, *args: Sequence[int] | None, **kwargs: Sequence[int]
    ) -> tuple[list[Shape], list[Shape], list[Shape]]:
        """As `infer_shape`, with what is known: 0 for a dimension, () for a shape, not known."""
        order, state = self._infer_shapes(args, kwargs)
        arguments, outputs, aux = (
            [legacy_out(state.get(entry)) for entry in group] for group in self._groups(order)
        )
        return arguments, outputs, aux

    def infer_type(
        self, *args: Any, **kwargs: Any
    ) -> tuple[list[Any] | None, list[Any] | None, list[Any] | None]:
        """Element types (NumPy scalar types) of arguments, outputs and auxiliary states.

        Returns
        -------
        three lists, or (None, None, None) when something stays unknown

        Raises
        ------
        DTypeError  contradiction; names operator, node, argument and both types
        """
        found = self.infer_type_partial(*args, **kwargs)
        if any(kind is None for group in found for kind in group):
            return None, None, None
        return found

    def infer_type_partial(self, *args: Any, **kwargs: Any) -> tuple[list[Any], list[Any], list[Any]]:
        """As `infer_type`, with None for what is not known."""
        named = self._named(args, kwargs, "infer_type")
        order = self.nodes
        given = {
            key: dtypes.code(value, f"[infer_type] {key}")
            for key, value in named.items()
            if value is not None
        }
        state = type_inference(FlatGraph(order), given)
        arguments, outputs, aux = (
            [None if (code := state.get(entry)) is None else dtypes.numpy_dtype(code).type for entry in group]
            for group in self._groups(order)
        )
        return arguments, outputs, aux

    def infer_storage_type(self, *args: str | None, **kwargs: str) -> tuple[list[str], list[str], list[str]]:
        """Storage types of arguments, outputs and auxiliary states: "default", since every array is dense.

        Raises
        ------
        MXNetError  a variable is given, or states, another storage type
        """
        stated = {n.name: kind for n in self.nodes if (kind := storage_type(n.attrs)) != "default"}
        for name, kind in {**stated, **self._named(args, kwargs, "infer_storage_type")}.items():
            if kind not in (None, "default"):
                raise MXNetError(
                    f"[infer_storage_type] {name}: expected 'default', got {kind!r}; arrays are dense"
                )
        arguments, outputs, aux = (["default"] * len(group) for group in self._groups(self.nodes))
        return arguments, outputs, aux

    def _infer_shapes(
        self, args: tuple[Sequence[int] | None, ...], kwargs: dict[str, Sequence[int]]
    ) -> tuple[list[Node], Inference[PartialShape]]:
        named = self._named(args, kwargs, "infer_shape")
        order = self.nodes
        given = {}
        for key, shape in named.items():
            given[key] = None if shape is None else legacy_in(shape_of(shape, f"infer_shape {key}"))
        return order, shape_inference(FlatGraph(order), given)

    def _named(self, args: tuple[Any, ...], kwargs: dict[str, Any], what: str) -> dict[str, Any]:
        if args and kwargs:
            raise ArgumentError(f"[{what}] give arguments by position or by name, not both")
        if not args:
            check_names(kwargs, self.list_inputs(), what)
            return kwargs
        names = self.list_arguments()
        if len(args) > len(names):
            raise ArgumentError(f"[{what}] expected at most {len(names)} values, got {len(args)}")
        return dict(zip(names, args, strict=False))

    def _groups(self, order: list[Node]) -> tuple[list[Entry], list[Entry], list[Entry]]:
        aux = auxiliary_variables(order)
        variables = [node for node in order if node.is_variable]
        return (
            [Entry(node) for node in variables if node not in aux],
            list(self.entries),
            [Entry(node) for node in variables if node in aux],
        )
