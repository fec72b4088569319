# SPDX-License-Identifier: Apache-2.0
"""The form of a declaration: checked when its class is made, so that the message comes with the line."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar, get_args

from mx_core import dtypes
from mx_core.errors import DTypeError, PluginError
from mx_core.operator.params import Params

#: attributes that list names
LISTS = (
    "aliases", "arguments", "auxiliaries", "results", "hidden", "shape_only", "without_gradient", "floating_only",
    "custom_gradient",
)  # fmt: skip
#: the lists that declare tensors, and the method that says which of them there are
TENSORS = {"arguments": "inputs", "auxiliaries": "aux", "results": "outputs"}
#: attributes that name tensors, and the lists in which these are declared
NAMING = {
    "hidden": ("results",),
    "shape_only": ("arguments",),
    "without_gradient": ("arguments",),
    "custom_gradient": ("arguments",),
    "input_attrs": ("arguments", "auxiliaries"),
    "floating_only": tuple(TENSORS),
    "fixed_types": tuple(TENSORS),
    "free_types": tuple(TENSORS),
}
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
    for name in (given.get("name"), *given.get("aliases", ())):
        if isinstance(name, str) and not name.isidentifier():
            raise PluginError(f"[{where}] expected a name that is an identifier of Python, got {name!r}")


def check_tensors(cls: type[Any], base: type[Any]) -> None:
    """Of the attributes in which a class with a name says something about its tensors.

    What a class inherits may name tensors that it has not, and the names that `inputs`, `aux` and `outputs` of its own
    return are known only where it declares the list, too.

    Parameters
    ----------
    base : class
        `Operator`, whose methods give what the lists declare.

    Raises
    ------
    PluginError  a tensor is declared twice, or one is named that is not declared; a type is none; pairs are none
    """
    given, name = cls.__dict__, getattr(cls, "name", None)
    if not isinstance(name, str):
        return
    declared = [tensor for attribute in TENSORS for tensor in getattr(cls, attribute)]
    if any(attribute in given for attribute in TENSORS):
        for tensor in declared:
            if declared.count(tensor) > 1:
                raise PluginError(f"[{name}] {tensor!r} is declared twice: {', '.join(declared)}")
    for attribute in ("fixed_types", "free_types", "input_attrs"):
        if not isinstance(given.get(attribute, {}), Mapping):
            raise PluginError(
                f"[{name}] {attribute}: expected a mapping of tensors, got {given[attribute]!r}"
            )
    for attribute, lists in NAMING.items():
        named = given.get(attribute, ())
        if not isinstance(named, bool) and all(_is_known(cls, base, kind) for kind in lists):
            _check_known(f"[{name}] {attribute}", named, [x for kind in lists for x in getattr(cls, kind)])
    for attribute in ("fixed_types", "free_types"):
        for tensor, kind in given.get(attribute, {}).items():
            if kind is not None and not (attribute == "free_types" and kind in declared):
                try:
                    dtypes.code(kind, f"[{name}] {attribute} of {tensor!r}")
                except DTypeError as error:
                    raise PluginError(str(error)) from None
    if "inplace_pairs" in given:
        _check_pairs(cls, base, f"[{name}] inplace_pairs")


def _is_known(cls: type[Any], base: type[Any], kind: str) -> bool:
    """Whether a list declares every tensor of its kind that there can be."""
    if kind == "arguments" and cls.variadic is not None:
        return False
    method = TENSORS[kind]
    return getattr(cls, method) is getattr(base, method) or getattr(cls, kind) is not getattr(base, kind)


def _check_known(where: str, named: Iterable[str], known: Collection[str]) -> None:
    for name in named:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, 1)
            guess = f"; did you mean {near[0]!r}?" if near else ""
            raise PluginError(f"{where}: no tensor {name!r}; there are {', '.join(known) or 'none'}{guess}")


def _check_pairs(cls: type[Any], base: type[Any], where: str) -> None:
    pairs = cls.inplace_pairs
    sides = (("arguments", "auxiliaries"), ("results",))
    limits = [
        sum(len(getattr(cls, kind)) for kind in side)
        if all(_is_known(cls, base, kind) for kind in side)
        else None
        for side in sides
    ]
    right = isinstance(pairs, (tuple, list)) and all(
        isinstance(pair, (tuple, list))
        and len(pair) == 2
        and all(
            isinstance(i, int) and i >= 0 and (n is None or i < n) for i, n in zip(pair, limits, strict=True)
        )
        for pair in pairs
    )
    if not right:
        inputs, outputs = ("any number of" if n is None else n for n in limits)
        raise PluginError(
            f"{where}: expected pairs (input index, output index), such as ((0, 0),), of "
            f"{inputs} inputs and {outputs} outputs; got {pairs!r}"
        )


def params_of(cls: type[Any], base: object) -> type[Params] | None:
    """The class of parameters in `Operator[…]`; None where it is open.

    Raises
    ------
    PluginError  it is neither a class that derives from `Params` nor a type variable
    """
    for given in get_args(base):
        if isinstance(given, TypeVar):
            continue
        if not isinstance(given, type):
            raise PluginError(
                f"[{cls.__name__}] parameters: expected a class that derives from Params, got {given!r}; "
                "define it before the operator"
            )
        if not issubclass(given, Params):
            raise PluginError(f"[{cls.__name__}] parameters: {given.__name__} does not derive from Params")
        return given
    return None
