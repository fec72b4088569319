# SPDX-License-Identifier: Apache-2.0
"""The form of a declaration: checked when its class is made, so that the message comes with the line."""

from __future__ import annotations

from typing import Any, get_args

from mx_core.errors import PluginError
from mx_core.operator.params import Params

#: attributes that list names
LISTS = (
    "aliases", "arguments", "auxiliaries", "results", "hidden", "shape_only", "without_gradient", "floating_only",
    "custom_gradient",
)  # fmt: skip
#: those that may be a truth value instead
OR_ALL = frozenset(("floating_only", "custom_gradient"))


def check_names(cls: type[Any]) -> None:
    """Of what a class itself declares.

    Raises
    ------
    PluginError  a name is no identifier, or a list of names is something else, such as a text
    """
    given = cls.__dict__
    where = given["name"] if isinstance(given.get("name"), str) else cls.__qualname__
    for attribute in LISTS:
        value = given.get(attribute, ())
        if isinstance(value, bool) and attribute in OR_ALL:
            continue
        if not isinstance(value, (tuple, list)) or not all(isinstance(name, str) for name in value):
            raise PluginError(f"[{where}] {attribute}: expected a tuple of names, got {value!r}")
    for name in (where, *given.get("aliases", ())):
        if name is not cls.__qualname__ and not name.isidentifier():
            raise PluginError(f"[{where}] expected a name that is an identifier of Python, got {name!r}")


def params_of(cls: type[Any], base: object) -> type[Params] | None:
    """The class of parameters in `Operator[…]`; None where it is open.

    Raises
    ------
    PluginError  it is a class that does not derive from `Params`
    """
    for given in get_args(base):
        if isinstance(given, type):
            if not issubclass(given, Params):
                raise PluginError(
                    f"[{cls.__name__}] parameters: {given.__name__} does not derive from Params"
                )
            return given
    return None
