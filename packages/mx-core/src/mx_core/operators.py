# SPDX-License-Identifier: Apache-2.0
"""The operators of this process: what plug-ins registered, and their backward operators."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from mx_core import plugins
from mx_core.errors import UnknownOperatorError
from mx_core.exits import exits_refused
from mx_core.forks import FirstUseLock, first_use
from mx_core.imports import import_by_name
from mx_core.operator.declaration import Operator, check_name
from mx_core.operator.refusal import Refusal
from mx_core.operator.table import Table
from mx_core.signals import let_pass

_lock = FirstUseLock()
_table: Table | None = None
_watchers: list[Callable[[], None]] = []


def _get() -> Table:
    table = _table
    return table if table is not None else _load()


def _load() -> Table:
    global _table
    with first_use, _lock:
        if _table is None:
            table = Table()
            table.insert(Refusal())
            seen: set[Any] = set()
            for entry in plugins.registry("operators").in_order():
                if entry.value not in seen:
                    seen.add(entry.value)
                    table.add(entry)
            _table = table
        return _table


def _bring(name: str) -> Operator[Any] | None:
    """Makes an operator whose module is imported when it is asked for."""
    _import_modules(name)
    with first_use, _lock:
        table = _get()
        if name in table.later:
            table.bring(name)
        return table.made.get(name)


def _import_modules(name: str) -> None:
    """Imports the modules of an operator without the lock, which another thread may need that imports one of them."""
    with _lock:
        modules = _get().modules(name)
    for module in modules:
        try:
            with first_use, exits_refused(f"the import of {module!r}"):
                import_by_name(module)
        except (OSError, MemoryError):
            raise
        except Exception as error:  # said by who makes the operator
            let_pass(error)


def _higher_derivative(name: str) -> Operator[Any] | None:
    """The derivative of an elementwise derivative; declared when it is first asked for, since they never end."""
    from mx_core.operator.derivative import Derivative

    if not name.startswith("_backward_backward_"):
        return None
    below = find(name[len("_backward") :])
    if not isinstance(below, Derivative):
        return None
    table = _get().made
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
    known = _get().names()
    close = _closest(str(name), known)
    hint = f" Did you mean {', '.join(map(repr, close))}?" if close else ""
    missing = plugins.missing_hint("operators", str(name))
    if not missing and len(known) < _FEW_NAMES:
        missing = "Install mx-operators and mx-operators-cpu, which bring the operators of MXNet."
    raise UnknownOperatorError(
        f"operator {name!r} is not registered.{hint}" + (f" {missing}" if missing else "")
    )


def _closest(name: str, among: Iterable[str]) -> list[str]:
    """At most three names that a user may have meant, whatever their case; gradients are nobody's to call."""
    known: dict[str, list[str]] = {}
    for each in among:
        if not each.startswith("_backward_"):
            known.setdefault(each.lower(), []).append(each)
    close = difflib.get_close_matches(name.lower(), known, 3)
    return [each for lower in close for each in known[lower]][:3]


def find(name: str) -> Operator[Any] | None:
    """The operator of this name or alias, or None."""
    table = _get()
    found = table.find(name)
    if found is None and name in table.later:
        found = _bring(name)
    return found or _higher_derivative(str(name))


def names() -> tuple[str, ...]:
    """All names and aliases, sorted."""
    return tuple(sorted(_get().names()))


def watch(changed: Callable[[], None]) -> None:
    """Calls `changed()` whenever operators have come or gone after they were first read.

    For caches of what was made of an operator's name.
    """
    _watchers.append(changed)


def _replace(table: Table | None) -> None:
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
    with first_use, _lock:
        extended = table.copy()
    for cls in classes:
        check_name(cls)
    made = tuple(cls() for cls in classes)
    for op in made:
        extended.insert(op)
    _replace(extended)
    try:
        yield made
    finally:
        _replace(table)
