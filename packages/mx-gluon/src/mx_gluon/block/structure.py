# SPDX-License-Identifier: Apache-2.0
"""Nested lists of arrays or symbols as flat lists and a format, and back.

Source: the format is MXNet's, which `Block.save` writes: 0 for one array, n for a symbol of n outputs, −1 for None,
a list for a list.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mx_core.context import Context
from mx_core.errors import ArgumentError
from mx_ndarray import NDArray
from mx_symbol.symbol import Symbol

Format = int | list[Any]


def flatten(args: Any, what: str) -> tuple[list[Any], Format]:
    """The arrays, symbols and None in nested lists and tuples.

    Parameters
    ----------
    what : str
        "input" or "output", for the error.

    Raises
    ------
    ArgumentError  something else is in it
    """
    if isinstance(args, NDArray):
        return [args], 0
    if isinstance(args, Symbol):
        return [args], len(args) if len(args) > 1 else 0
    if args is None:
        return [None], -1
    if not isinstance(args, (list, tuple)):
        raise ArgumentError(
            f"[HybridBlock] {what}: a graph has (nested lists of) NDArrays or symbols, got {args!r} of type "
            f"{type(args).__name__}"
        )
    flat: list[Any] = []
    formats: list[Format] = []
    for each in args:
        inner, form = flatten(each, what)
        flat += inner
        formats.append(form)
    return flat, formats


def regroup(args: Sequence[Any], form: Format) -> Any:
    """The nested lists of a format."""
    return _taken(list(args), form)[0]


def _taken(args: list[Any], form: Format) -> tuple[Any, list[Any]]:
    if isinstance(form, list):
        made = []
        for each in form:
            inner, args = _taken(args, each)
            made.append(inner)
        return made, args
    if form > 0:
        return args[:form], args[form:]
    return args[0], args[1:]


def same_structure(form: Format, known: Format) -> bool:
    """Whether two formats of arguments agree but for None at the end."""
    if not isinstance(form, list) or not isinstance(known, list):
        return form == known
    short, long = sorted((form, known), key=len)
    return long[: len(short)] == short and all(each == -1 for each in long[len(short) :])


def kinds(args: Any) -> tuple[bool, list[Context]]:
    """Whether there are symbols in nested lists, and the contexts of the arrays, each once, in order."""
    symbols = False
    contexts: dict[Context, None] = {}
    waiting = [args]
    while waiting:
        each = waiting.pop()
        if isinstance(each, NDArray):
            contexts[each.context] = None
        elif isinstance(each, Symbol):
            symbols = True
        elif isinstance(each, (list, tuple)):
            waiting += reversed(each)
    return symbols, list(contexts)
