# SPDX-License-Identifier: Apache-2.0
"""Which operator a name in `sym`, `sym.contrib`, … stands for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from mx_core import operators
from mx_core.errors import UnknownOperatorError
from mx_core.imports import import_by_name

if TYPE_CHECKING:
    from mx_symbol.symbol import Symbol

#: `__getattr__` of a namespace: the function of an operator by its name
Lookup = Callable[[str], "Callable[..., Symbol]"]
SUBSPACES = ("contrib", "linalg", "image", "sparse", "random", "op", "_internal")
#: prefix of the operators of a namespace; `op` and `sym` itself have the public ones
_PREFIXES = {
    "contrib": "_contrib_", "linalg": "_linalg_", "image": "_image_", "sparse": "_sparse_",
    "random": "_random_", "_internal": "_", "op": "", "": "",
}  # fmt: skip


def find(module: str, space: str, name: str) -> Callable[..., Symbol]:
    """The function `name` of a namespace.

    Raises
    ------
    AttributeError  there is none; the message has the closest names and what could not be loaded
    """
    from mx_symbol.symbol.functions import function

    if name.startswith("__"):
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    registered = name if space == "_internal" else _PREFIXES[space] + name
    if operators.find(registered) is None and space in ("linalg", "random"):
        registered = f"{space}_{name}"
    try:
        return function(registered, name)
    except UnknownOperatorError as error:
        raise UnknownOperatorError(f"module {module!r} has no attribute {name!r}: {error}") from None


def names(space: str) -> list[str]:
    """What a namespace offers."""
    prefix = _PREFIXES[space]
    if prefix == "":
        return [name for name in operators.names() if not name.startswith("_")]
    if space == "_internal":
        return [name for name in operators.names() if name.startswith("_")]
    return [name[len(prefix) :] for name in operators.names() if name.startswith(prefix)]


def namespace(module: str, space: str, own: Iterable[str] = ()) -> tuple[Lookup, Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a module that offers the functions of a namespace.

    Parameters
    ----------
    module : the module's name
    space : its key among the namespaces
    own : what else the module has
    """

    def attribute(name: str) -> Any:
        if name == "__all__":  # of `import *`; what a plug-in has not got right is not there
            whole = sys.modules[module]
            return [each for each in offered() if not each.startswith("_") and hasattr(whole, each)]
        if space == "" and name in SUBSPACES:
            return import_by_name(f"{module}.{name}")
        return find(module, space, name)

    def offered() -> list[str]:
        return sorted({*names(space), *own, *(SUBSPACES if space == "" else ())})

    return attribute, offered
