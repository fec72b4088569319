# SPDX-License-Identifier: Apache-2.0
"""Importing a module by its name, in a way that several threads may do at once."""

from __future__ import annotations

import sys
from _thread import get_ident
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


def import_by_name(name: str) -> ModuleType:
    """Imports a module, the packages that it lies in first.

    A thread that imports `a.b` may wait in it for `a`, while another one imports `a`, whose code waits for
    `a.b`. Python then gives one of them the other's module unfinished, and names are missing in it. From
    the outside in, no thread holds what another waits for. Threads: any.

    Raises
    ------
    Exception  any exception that the module raises
    """
    parts = name.split(".")
    for end in range(1, len(parts)):
        import_module(".".join(parts[:end]))
    return import_module(name)


class Early:
    """A finder for what is below a package that one thread imports while others ask: their imports wait for it.

    Python does not wait for the package before it looks for what is below it, and a finder that the package makes is
    not there yet. The package puts this one in front of `sys.meta_path`, first of all, and calls `serve` when it is
    whole. Files in the package are left to Python.

    Threads: made by the one that imports the package; asked by any.

    Parameters
    ----------
    package : str
        Name of the package.
    """

    def __init__(self, package: str) -> None:
        self._package, self._thread = package, get_ident()
        self._whole = False
        self._finder: Any = None

    def serve(self, finder: Any = None) -> None:
        """The package is whole; from now on another finder is asked, if one is given. It is never taken out of the
        list: a thread may be going through it."""
        self._finder, self._whole = finder, True

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A spec whose loader waits; None in the thread that imports the package."""
        if self._whole:
            found: ModuleSpec | None = self._finder and self._finder.find_spec(fullname, path, target)
            return found
        if not fullname.startswith(f"{self._package}.") or get_ident() == self._thread:
            return None
        spec = getattr(sys.modules.get(self._package), "__spec__", None)
        if not getattr(spec, "_initializing", False):  # its import has failed
            return None
        if PathFinder.find_spec(fullname, path) is not None:
            return None
        return ModuleSpec(fullname, self)  # type: ignore[arg-type]  # it is a loader by what it does

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """What the loader makes that is found once the package is whole; the spec becomes that one.

        Raises
        ------
        ModuleNotFoundError  nothing is found
        """
        package = import_module(self._package)
        for finder in sys.meta_path:
            found = finder.find_spec(spec.name, package.__path__)
            loader: Any = found and found.loader
            if found is not None and loader is not None and loader is not self:
                vars(spec).update(vars(found))
                made: ModuleType | None = loader.create_module(found)
                return made
        raise ModuleNotFoundError(f"No module named {spec.name!r}", name=spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Is never reached: the spec has another loader by then."""


def lazy(
    module: str, homes: Mapping[str, Iterable[str]], submodules: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a module that imports its public names when they are first used.

    A name is bound in the module once it is imported, so that `__getattr__` is called once for each. Threads: any.

    Parameters
    ----------
    module : str
        `__name__` of the module.
    homes : mapping of str to names
        The full name of a module to what is taken from it.
    submodules : names
        Modules in the package `module`.

    Examples
    --------
    In the module `acme`::

        if TYPE_CHECKING:
            from acme.engines import Engine as Engine

        __getattr__, __dir__, __all__ = lazy(__name__, {"acme.engines": ["Engine"]}, ["tools"])
    """
    home_of = {name: home for home, names in homes.items() for name in names}
    public = sorted({*home_of, *submodules})

    def attribute(name: str) -> Any:
        if name not in public:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        found: Any
        if name in home_of:
            found = getattr(import_by_name(home_of[name]), name)
        else:
            found = import_by_name(f"{module}.{name}")
        vars(sys.modules[module])[name] = found
        return found

    def names() -> list[str]:
        return sorted({*vars(sys.modules[module]), *public})

    return attribute, names, public
