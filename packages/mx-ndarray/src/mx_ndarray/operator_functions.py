# SPDX-License-Identifier: Apache-2.0
"""Functions generated from the operators of this process.

They are made when asked for, so that an operator appears when its plug-in is installed and
vanishes with it.
"""

from __future__ import annotations

import copyreg
import functools
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from mx_core import operators
from mx_core.errors import UnknownOperatorError
from mx_core.operator import Operator
from mx_ndarray import _core

if TYPE_CHECKING:
    from mx_ndarray.ndarray import NDArray

F = TypeVar("F", bound=Callable[..., Any])

_own: dict[str, Callable[..., Any]] = {}  # functions that take the place of those that would be made
_made: dict[str, tuple[Operator, Callable[..., NDArray]]] = {}
_undo: list[Callable[[], object]] = []


def _own_name(function: Any) -> str:
    """What a copy of a function is made by: its name, as that of a function of Python, so that it is the same one."""
    return str(function.__qualname__)


for _kind in (_core.OperatorFunction, _core.NativeFunction):
    copyreg.pickle(_kind, _own_name)


def served_natively(function: F) -> F:
    """Lets native code serve the usual calls of a function; its body serves the others."""
    made = _core.NativeFunction(function)
    functools.update_wrapper(made, function)
    return cast("F", made)


def serves(operator: str) -> Callable[[F], F]:
    """Makes the decorated function what `function` gives for an operator."""

    def register(given: F) -> F:
        _own[operator] = given
        return given

    return register


def replace(operator: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Puts a function in the place of what `function` gives for an operator, made from what it gave.

    Programs that have taken the former one keep it.
    """
    _own[operators.get(operator).name] = make(function(operator))
    _take_back()


def keep(undo: Callable[[], object]) -> None:
    """Registers how to remove a function again; called when operators are added or removed."""
    _undo.append(undo)


def _take_back() -> None:
    while _undo:
        _undo.pop()()


operators.watch(_take_back)


def function(name: str) -> Callable[..., NDArray]:
    """The function of an operator name or alias; see `several` for operators with a list of outputs.

    Raises
    ------
    UnknownOperatorError  there is none; the message has close names and missing plug-ins
    """
    op = operators.get(name)
    if op.name in _own:
        return _own[op.name]
    known = _made.get(name)
    if known is not None and known[0] is op:
        return known[1]
    made = _core.OperatorFunction(op)
    made.__name__ = name
    made.__qualname__ = name
    made.__module__ = "mx_ndarray.nd"
    made.__doc__ = op.doc()
    made.__signature__ = op.signature()
    made.__wrapped_operator__ = op
    _made[name] = (op, cast("Callable[..., NDArray]", made))
    return _made[name][1]


def several(name: str) -> Callable[..., NDArray | list[NDArray]]:
    """`function` of an operator whose number of outputs depends on its parameters: one array, or a list."""
    return function(name)


def namespace(
    module: str,
    *prefixes: str,
    public: bool = False,
    internal: bool = False,
    absent: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a module that offers operator functions.

    Parameters
    ----------
    module : the module's name, for messages
    prefixes : operator names with these prefixes appear without them
    public : names without a leading underscore appear
    internal : names with a leading underscore appear
    absent : names of MXNet that do not exist here, with an explanation
    """

    def offers(name: str) -> bool:
        return internal if name.startswith("_") else public

    def attribute(name: str) -> Any:
        if name == "__all__":  # of `import *`; what a plug-in has not got right is not there
            space = sys.modules[module]
            return [each for each in names() if not each.startswith("_") and hasattr(space, each)]
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if name in absent:
            raise AttributeError(
                f"module {module!r} has no attribute {name!r}: {absent[name]} are not implemented; see the guide "
                f"'Move a script from MXNet' (docs/guides/move_from_mxnet.md)"
            )
        made = find(name)
        place = sys.modules[module].__dict__  # found there from now on
        place[name] = made
        keep(lambda: place.pop(name, None))
        return made

    def find(name: str) -> Any:
        for prefix in prefixes:
            if operators.find(prefix + name) is not None:
                return function(prefix + name)
        if offers(name):
            try:
                return function(name)
            except UnknownOperatorError as error:
                raise UnknownOperatorError(f"module {module!r} has no function {name!r}: {error}") from None
        raise UnknownOperatorError(f"module {module!r} has no function {name!r}")

    def names() -> list[str]:
        found = {name for name in vars(sys.modules[module]) if not name.startswith("__")}
        for name in operators.names():
            if offers(name):
                found.add(name)
            for prefix in prefixes:
                if name.startswith(prefix):
                    found.add(name[len(prefix) :])
        return sorted(found)

    return attribute, names
