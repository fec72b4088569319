# SPDX-License-Identifier: Apache-2.0
"""The operators of this process: what plug-ins registered, and their backward operators."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from mx_core import plugins
from mx_core.errors import PluginError, UnknownOperatorError
from mx_core.exits import exits_refused
from mx_core.forks import FirstUseLock, first_use
from mx_core.operator.declaration import Operator, check_name
from mx_core.operator.refusal import Refusal

_lock = FirstUseLock()
_table: dict[str, Operator[Any]] | None = None
_watchers: list[Callable[[], None]] = []


def _insert(table: dict[str, Operator[Any]], op: Operator[Any]) -> None:
    """Adds an operator and its backward operators, or raises and adds nothing."""
    made: dict[str, Operator[Any]] = {}
    _collect(table, made, op)
    table.update(made)


def _collect(table: dict[str, Operator[Any]], made: dict[str, Operator[Any]], op: Operator[Any]) -> None:
    known = made.get(op.name, table.get(op.name))
    if type(known) is type(op):  # a backward operator that is declared on its own, too
        known.backward_of = known.backward_of or op.backward_of
        return
    for name in (op.name, *op.aliases):
        taken = made.get(name, table.get(name))
        if taken is not None:
            raise PluginError(
                f"operator {name!r} is declared by {type(taken).__module__}.{type(taken).__qualname__} and by "
                f"{type(op).__module__}.{type(op).__qualname__}"
            )
        made[name] = op
    backward = op.backward_operator()
    if backward is not None:
        backward.backward_of, backward.brought_by = op, op.brought_by
        _collect(table, made, backward)


def _get() -> dict[str, Operator[Any]]:
    table = _table
    return table if table is not None else _load()


def _load() -> dict[str, Operator[Any]]:
    global _table
    with first_use, _lock:
        if _table is None:
            table: dict[str, Operator[Any]] = {}
            _insert(table, Refusal())
            seen: set[type[Operator[Any]]] = set()
            for entry in plugins.registry("operators").in_order():
                if entry.value in seen:
                    continue
                seen.add(entry.value)
                try:
                    with exits_refused("its constructor"):
                        op = entry.value()
                    op.brought_by = None if entry.is_first_party else entry
                    _insert(table, op)
                except Exception as error:
                    plugins.set_aside(entry, error)
            _table = table
        return _table


def _higher_derivative(name: str) -> Operator[Any] | None:
    """The derivative of an elementwise derivative; declared when it is first asked for, since they never end."""
    from mx_core.operator.derivative import Derivative

    if not name.startswith("_backward_backward_"):
        return None
    below = find(name[len("_backward") :])
    if not isinstance(below, Derivative):
        return None
    table = _get()
    with first_use, _lock:
        if name not in table:
            made = below.derivative()
            made.backward_of, made.brought_by = below, below.brought_by
            table[name] = made
        return table[name]


#: fewer names than mx-operators brings by far: it is not installed
_FEW_NAMES = 100


def get(name: str) -> Operator[Any]:
    """The operator of this name or alias.

    Raises
    ------
    UnknownOperatorError
        There is none; the message has the closest names and, if a plug-in that may have
        brought it did not load, that plug-in and why, or what to install where nearly no operators are.
    """
    found = find(name)
    if found is not None:
        return found
    table = _get()
    close = _closest(str(name), table)
    hint = f" Did you mean {', '.join(map(repr, close))}?" if close else ""
    missing = plugins.missing_hint("operators", str(name))
    if not missing and len(table) < _FEW_NAMES:
        missing = "Install mx-operators and mx-operators-cpu, which bring the operators of MXNet."
    raise UnknownOperatorError(
        f"operator {name!r} is not registered.{hint}" + (f" {missing}" if missing else "")
    )


def _closest(name: str, table: Iterable[str]) -> list[str]:
    """At most three names that a user may have meant, whatever their case; gradients are nobody's to call."""
    known: dict[str, list[str]] = {}
    for each in table:
        if not each.startswith("_backward_"):
            known.setdefault(each.lower(), []).append(each)
    close = difflib.get_close_matches(name.lower(), known, 3)
    return [each for lower in close for each in known[lower]][:3]


def find(name: str) -> Operator[Any] | None:
    """The operator of this name or alias, or None."""
    return _get().get(name) or _higher_derivative(str(name))


def names() -> tuple[str, ...]:
    """All names and aliases, sorted."""
    return tuple(sorted(_get().copy()))


def watch(changed: Callable[[], None]) -> None:
    """Calls `changed()` whenever operators have come or gone after they were first read.

    For caches of what was made of an operator's name.
    """
    _watchers.append(changed)


def _replace(table: dict[str, Operator[Any]] | None) -> None:
    global _table
    with _lock:
        _table = table
    for changed in _watchers:
        changed()


def reset() -> None:
    """Forgets the table, so that the registry is read anew; for tests."""
    _replace(None)


@contextmanager
def temporary(*classes: type[Operator[Any]]) -> Iterator[tuple[Operator[Any], ...]]:
    """Declares operators for the duration of a block; for tests."""
    table = _get()
    extended = dict(table)
    for cls in classes:
        check_name(cls)
    made = tuple(cls() for cls in classes)
    for op in made:
        _insert(extended, op)
    _replace(extended)
    try:
        yield made
    finally:
        _replace(table)
