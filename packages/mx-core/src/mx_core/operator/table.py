# SPDX-License-Identifier: Apache-2.0
"""Operators by name: those that are made, and those whose modules are imported when they are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from mx_core.errors import PluginError
from mx_core.exits import exits_refused
from mx_core.imports import import_by_name
from mx_core.operator.declaration import Operator
from mx_core.operator.packages import has_name, members
from mx_core.plugins.aside import set_aside
from mx_core.plugins.registries import Entry
from mx_core.plugins.specs import OperatorSpec


class Table:
    """All names and aliases, those of backward operators included.

    Threads: `made`, `later` and `names` may be read by any; what changes the table runs under the lock of
    `mx_core.operators`.
    """

    def __init__(self) -> None:
        #: name or alias -> operator
        self.made: dict[str, Operator[Any]] = {}
        #: name or alias of an operator that is not made -> the modules that bring it, or what it is the gradient of
        self.later: dict[str, list[str]] = {}
        self._entries: dict[str, list[Entry]] = {}

    def find(self, name: str) -> Operator[Any] | None:
        """The one that is made; None where there is none, or it is to be made later."""
        found = self.made.get(name)
        # It was just made, where it is in neither.
        return found if found is not None or name in self.later else self.made.get(name)

    def copy(self) -> Self:
        """Another table of the same operators, all of which are made."""
        self.bring(*self.later)
        made = type(self)()
        made.made = dict(self.made)
        return made

    def names(self) -> set[str]:
        """All of them."""
        return {*self.later.copy(), *self.made.copy()}  # what leaves the one is in the other by then

    def add(self, entry: Entry) -> None:
        """Adds what a plug-in has registered; what cannot be made is set aside."""
        spec = entry.value
        if not isinstance(spec, OperatorSpec):
            self._make(entry, spec)
            return
        if any(name in self.made for name in spec.names):  # its class says whether it is the same
            self._import(spec.module, [entry])
            return
        self._entries.setdefault(spec.module, []).append(entry)
        for name in spec.names:
            modules = self.later.setdefault(name, [])
            if spec.module not in modules:
                modules.append(spec.module)

    def bring(self, *names: str) -> None:
        """Makes operators that were to be made later, and all that have a name in common with them.

        Again, if an exception has ended it before, or the import of their module goes on.

        Raises
        ------
        OSError, MemoryError  the machine does not let a module be imported now
        """
        modules = self.modules(*names)
        whole = [module for module in modules if self._import(module, self._entries.get(module, []))]
        for module in whole:
            for entry in self._entries.pop(module, ()):  # a module may have asked for its own operators
                for name in entry.value.names:
                    self.later.pop(name, None)
        if whole == modules:
            for name in names:
                self.later.pop(name, None)

    def modules(self, *names: str) -> list[str]:
        """Those that say something about names, and about the names of what these bring, in order of registration."""
        found: set[str] = set()
        wanted = list(names)
        while wanted:
            for module in self.later.get(wanted.pop(), ()):
                if module not in found:
                    found.add(module)
                    wanted += [name for entry in self._entries.get(module, ()) for name in entry.value.names]
        return [module for module in self._entries if module in found]

    def _import(self, module: str, entries: list[Entry]) -> bool:
        """Makes what a module declares; False if it is still being imported, by this thread, and may declare more."""
        try:
            with exits_refused(f"the import of {module!r}"):
                brought = import_by_name(module)
        except (OSError, MemoryError):
            raise
        except Exception as error:
            for entry in entries:
                set_aside(entry, error)
            return True
        whole = not getattr(brought.__spec__, "_initializing", False)
        classes = {cls.name: cls for cls in members(brought) if has_name(cls)}
        for entry in entries:
            if whole or entry.name in classes:
                self._make(entry, classes.get(entry.name))
        return whole

    def _make(self, entry: Entry, declared: type[Operator[Any]] | None) -> None:
        try:
            if declared is None:
                raise PluginError(f"module {entry.value.module!r} declares no operator {entry.name!r}")
            with exits_refused("its constructor"):
                op = declared()
            op.brought_by = None if entry.is_first_party else entry
            self.insert(op, entry.value.names if isinstance(entry.value, OperatorSpec) else ())
        except Exception as error:
            set_aside(entry, error)

    def insert(self, op: Operator[Any], expected: tuple[str, ...] = ()) -> None:
        """Adds an operator and its backward operators, or raises and adds nothing."""
        found = collected(op, self.made)
        others = [name for name in found if name in self.later and name not in expected]
        if others:
            self.bring(*others)
            found = collected(op, self.made)
        self.made.update(found)


def collected(op: Operator[Any], known: Mapping[str, Operator[Any]]) -> dict[str, Operator[Any]]:
    """An operator and its backward operators by all their names, but for those that `known` has.

    Raises
    ------
    PluginError  another operator has one of the names
    """
    found: dict[str, Operator[Any]] = {}
    _collect(known, found, op)
    return found


def _collect(known: Mapping[str, Operator[Any]], found: dict[str, Operator[Any]], op: Operator[Any]) -> None:
    same = found.get(op.name, known.get(op.name))
    if type(same) is type(op):  # a backward operator that is declared on its own, too
        same.backward_of = same.backward_of or op.backward_of
        return
    for name in (op.name, *op.aliases):
        taken = found.get(name, known.get(name))
        if taken is not None:
            raise PluginError(
                f"operator {name!r} is declared by {type(taken).__module__}.{type(taken).__qualname__} and by "
                f"{type(op).__module__}.{type(op).__qualname__}"
            )
        found[name] = op
    backward = op.backward_operator()
    if backward is not None:
        backward.backward_of, backward.brought_by = op, op.brought_by
        _collect(known, found, backward)
