# SPDX-License-Identifier: Apache-2.0
"""Imports of submodules by MXNet's names: `import mx.io`, `from mx.ndarray import array`.

The modules of these names are in other packages. An import binds the same module object that the attribute
`mx.io` is; nothing is loaded twice.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import FrameType, ModuleType

from mx.absent import absence, explain, explain_new, known_as
from mx.files import files_of
from mx_core.imports import import_by_name

_others: set[str] = set()


def serve(name: str) -> None:
    """Serves imports below another package's name, too, as those below `mx`."""
    _others.add(name)


class _Existing:
    """A loader that gives a module a second name, and MXNet's files in it that name, too."""

    def __init__(
        self, real: str, names: Sequence[str], missing: Callable[[ModuleNotFoundError], str | None]
    ) -> None:
        self._real, self._names, self._missing = real, names, missing

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module of the first name."""
        try:
            module = import_by_name(self._real)
        except ModuleNotFoundError as error:
            message = self._missing(error)
            if message is None:
                raise
            raise ModuleNotFoundError(message, name=error.name) from error
        self._spec = module.__spec__
        explain(module, self._names)
        explain_new()
        for file in files_of(self._names):
            sys.modules[f"{spec.name}.{file}"] = module
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Gives the module its own spec back, which the import system has replaced."""
        module.__spec__ = self._spec


class _Nothing:
    """A loader for a name that the module above it may have words for."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Raises ModuleNotFoundError, with what the module above says of the name."""
        parent, _, name = spec.name.rpartition(".")
        module = sys.modules[parent]
        told = f"No module named {spec.name!r}"
        try:
            getattr(module, name)
        except AttributeError as error:
            if str(error) != f"module {module.__name__!r} has no attribute {name!r}":
                told += f": {error}"
        raise ModuleNotFoundError(told, name=spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Is never reached."""


class Submodules:
    """A finder for names below a package whose parts are in other packages.

    It also serves names below `mxnet` if a program has put the package into `sys.modules` under that name, and below
    those of `serve`.

    Threads: any. Python asks finders with the lock of all imports held, so none of them imports anything: another
    thread may wait for that lock within the module that would be waited for.

    Parameters
    ----------
    package : str
        Name of the package in `sys.modules`.
    places : mapping of str to str
        Name below the package -> full name of the module; entries with a colon are no modules.
    missing : callable
        From a name and the error of its import to a message; None if the error is not about a missing distribution.
    absent : callable
        From a name to the message if it is not implemented, else None.
    """

    def __init__(
        self,
        package: str,
        places: Mapping[str, str],
        missing: Callable[[str, ModuleNotFoundError], str | None],
        absent: Callable[[str], str | None],
    ) -> None:
        self._package, self._places, self._missing, self._absent = package, places, missing, absent

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a submodule; None for other names, which the other finders know.

        Raises
        ------
        ModuleNotFoundError  MXNet has the submodule, and mx has not; `importlib.util.find_spec` gives None for it
        """
        try:
            found = self._find(fullname, path)
        except ModuleNotFoundError:
            if _is_question(sys._getframe(1)):
                return None
            raise
        is_nothing = found is not None and isinstance(found.loader, _Nothing)
        return None if is_nothing and _is_question(sys._getframe(1)) else found

    def _find(self, fullname: str, path: Sequence[str] | None) -> ModuleSpec | None:
        top, _, rest = fullname.partition(".")
        package = sys.modules.get(self._package)
        if not rest or package is None or (top not in _others and sys.modules.get(top) is not package):
            return None
        head, _, below = rest.partition(".")
        message = self._absent(head)
        if message is not None:
            raise ModuleNotFoundError(message)
        place = self._places.get(head, f"{self._package}.{head}")
        real = f"{place}.{below}" if below else place
        if below:
            _refuse_absent(fullname, [f"{self._package}.{head}", *known_as(self._places, place)], below)
        if ":" in place or real == fullname:
            return None
        folders = path if below else package.__path__
        if (below or head not in self._places) and not _exists(real, folders):
            if not below or not _has_words(fullname):
                return None
            return ModuleSpec(fullname, _Nothing())  # type: ignore[arg-type]  # it is a loader by what it does
        names = known_as(self._places, real)
        if below:
            names += [f"{each}.{below}" for each in known_as(self._places, place)]
        loader = _Existing(real, names, lambda error: self._missing(head, error))
        return ModuleSpec(fullname, loader)  # type: ignore[arg-type]  # it is a loader by what it does


def _is_question(frame: FrameType | None) -> bool:
    """Whether a frame of the import system looks for a module that nobody imports."""
    while frame is not None and frame.f_globals.get("__name__") in (
        "importlib._bootstrap",
        "mx_core.imports",
    ):
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__") == "importlib.util"


def _exists(name: str, folders: Sequence[str] | None) -> bool:
    return name in sys.modules or PathFinder.find_spec(name, folders) is not None


def _has_words(fullname: str) -> bool:
    above = sys.modules.get(fullname.rpartition(".")[0])
    return above is not None and "__getattr__" in vars(above)


def _refuse_absent(fullname: str, above: Sequence[str], below: str) -> None:
    """Raises ModuleNotFoundError for a module that MXNet has below one of several names, and mx has not."""
    between, _, name = f".{below}".rpartition(".")
    if told := absence([each + between for each in above], name):
        raise ModuleNotFoundError(told, name=fullname)
