# SPDX-License-Identifier: Apache-2.0
"""Functions made from operator declarations: what `mx.sym.Convolution` is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mx_core import operators
from mx_core.errors import ArgumentError
from mx_core.operator import Operator
from mx_symbol.graph import Entry
from mx_symbol.symbol import Symbol
from mx_symbol.symbol.compose import apply

#: by registered name and the name shown, which automatic names begin with
_functions: dict[tuple[str, str], tuple[Operator, Callable[..., Symbol]]] = {}


def call(operator: str, /, *args: Any, **kwargs: Any) -> Symbol:
    """Applies the operator of this name or alias."""
    return function(operator)(*args, **kwargs)


def function(name: str, shown: str | None = None) -> Callable[..., Symbol]:
    """The function of an operator; `shown` is its name within its namespace.

    Raises
    ------
    UnknownOperatorError  no operator is registered under `name`
    """
    op = operators.get(name)
    key = (name, shown or name)
    found = _functions.get(key)
    if found is not None and found[0] is op:
        return found[1]
    made = _make(op, key[1])
    _functions[key] = (op, made)
    return made


def _make(op: Operator, shown: str) -> Callable[..., Symbol]:
    inputs = (*op.arguments, *op.auxiliaries) if op.variadic is None else ()
    params = tuple(info.name for info in op.Param.fields() if info.name not in inputs)

    def generated(*args: Any, **kwargs: Any) -> Symbol:
        return _call(op, shown, inputs, params, args, kwargs)

    generated.__name__ = generated.__qualname__ = shown
    generated.__doc__ = op.doc()
    generated.__module__ = "mx_symbol.sym"
    generated.__signature__ = op.signature()  # type: ignore[attr-defined]  # functions take any
    generated.__wrapped_operator__ = op  # type: ignore[attr-defined]  # functions take any
    return generated


def _call(
    op: Operator,
    shown: str,
    inputs: tuple[str, ...],
    params: tuple[str, ...],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Symbol:
    name, attr = kwargs.pop("name", None), kwargs.pop("attr", None)
    kwargs.pop("out", None)
    if op.variadic is not None:
        if len(args) == 1 and isinstance(args[0], (list, tuple)):
            args = tuple(args[0])
        positional = [_entry(value, op, f"arg{i}") for i, value in enumerate(args)]
    else:
        if len(args) > len(inputs) + len(params):
            raise ArgumentError(
                f"[{op.name}] expected at most {len(inputs) + len(params)} arguments, got {len(args)}"
            )
        for key, value in zip((*inputs, *params), args, strict=False):
            if key in kwargs and value is not None:
                raise ArgumentError(f"[{op.name}] {key!r} is given by position and by name")
            kwargs.setdefault(key, value)
        positional = []
        for key in inputs:
            _entry(kwargs.get(key), op, key)
    named = {k: _single(v, op, k) for k, v in kwargs.items() if isinstance(v, Symbol)}
    values = {k: v for k, v in kwargs.items() if k not in named and not (v is None and k in inputs)}
    node = apply(op, shown, positional, named, values, name, _checked(attr))
    return Symbol(tuple(Entry(node, i) for i in range(node.num_visible_outputs)))


def _checked(attr: Mapping[str, str] | None) -> Mapping[str, str] | None:
    for key, value in (attr or {}).items():
        if not isinstance(value, str):
            raise ArgumentError(f"[attr] {key}: expected text, got {value!r}")
    return attr


def _entry(value: Any, op: Operator, argument: str) -> Entry | None:
    if value is None:
        return None
    if not isinstance(value, Symbol):
        raise TypeError(f"[{op.name}] {argument}: expected a Symbol, got {type(value).__name__}")
    return _single(value, op, argument)


def _single(value: Symbol, op: Operator, argument: str) -> Entry:
    entries = value.entries
    if len(entries) != 1:
        raise ArgumentError(
            f"[{op.name}] {argument}: expected a symbol with one output, got {len(entries)}: "
            f"{', '.join(value.list_outputs())}"
        )
    return entries[0]
