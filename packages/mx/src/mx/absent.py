# SPDX-License-Identifier: Apache-2.0
"""MXNet's public names that are not here: a module that is asked for one says so, and what there is instead.

`absent.json` has them with the reasons of the page for those who come from MXNet; a test compares the two.
"""

from __future__ import annotations

import json
import opcode
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from mx.files import FILES, files_of
from mx_core.imports import import_by_name

_GUIDE = "the guide 'Move a script from MXNet' (docs/guides/move_from_mxnet.md)"
#: names of MXNet that another package has than the module they belong to
_ELSEWHERE = {"mx.nd": {"CachedOp": "mx_symbol:CachedOp"}}
_IMPORT_FROM = opcode.opmap["IMPORT_FROM"]


@cache
def _names() -> dict[str, dict[str, str]]:
    """Module -> name -> what there is instead."""
    found: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("absent.json").read_text("utf-8"))
    return found


def absence(modules: Sequence[str], name: str) -> str:
    """What is said of a name of MXNet that is not here; empty for any other name.

    Parameters
    ----------
    modules : sequence of str
        The names under which the module is known, such as `["mx.kv", "mx.kvstore"]`.
    """
    for module in modules:
        reason = _names().get(module, {}).get(name)
        if reason is not None:
            return f"{module}.{name} is not implemented; see {_GUIDE}: {reason}"
    return ""


def known_as(places: Mapping[str, str], place: str) -> list[str]:
    """The names below `mx` of a module."""
    return [f"mx.{name}" for name, at in places.items() if at == place]


#: modules that `explain` was called with, and their names
_explained: list[tuple[ModuleType, Sequence[str]]] = []
#: how many modules there were when `explain_new` looked last
_modules = 0


def explain(module: ModuleType, names: Sequence[str]) -> None:
    """Has a module say of MXNet's names that it lacks that they are not here; other names are missing as before.

    The modules below it that MXNet has, too, say so of theirs. MXNet's files in it are the module itself.

    Parameters
    ----------
    names : sequence of str
        Under which the module is known.
    """
    before = vars(module).get("__getattr__")
    if getattr(before, "explains", False) or not names:
        return

    files = files_of(names)

    def attribute(name: str) -> Any:
        if name in files:
            return module
        place = next(
            (names_there[name] for each in names if name in (names_there := _ELSEWHERE.get(each, {}))), ""
        )
        if place:
            other, _, attribute_there = place.partition(":")
            return getattr(import_by_name(other), attribute_there)
        try:
            if before is None:
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            found = before(name)
        except AttributeError as error:
            told = absence(names, name)
            unfinished = f"{module.__name__}.{name}" in sys.modules  # Python takes it from there
            if (told or before is not None) and not unfinished and _is_import_from(sys._getframe(1)):
                # Python drops an AttributeError here, with its text.
                raise ImportError(told or str(error), name=module.__name__) from error
            if told:
                raise AttributeError(told, name=name, obj=module) from error
            raise
        _explain_below(module, name, found, names)
        explain_new()
        return found

    attribute.explains = True  # type: ignore[attr-defined]
    vars(module)["__getattr__"] = attribute
    _explained.append((module, names))
    for name, found in list(vars(module).items()):
        _explain_below(module, name, found, names)


def explain_new() -> None:
    """Explains what has been imported into explained modules since, by other modules than this one."""
    global _modules
    if len(sys.modules) == _modules:
        return
    _modules = len(sys.modules)
    for module, names in list(_explained):
        for name, found in list(vars(module).items()):
            _explain_below(module, name, found, names)


def _explain_below(module: ModuleType, name: str, found: object, names: Sequence[str]) -> None:
    if isinstance(found, ModuleType) and found.__name__ == f"{module.__name__}.{name}":
        below = [f"{each}.{name}" for each in names]
        explain(found, [each for each in below if each in _names() or _has_files(each)])


def _has_files(name: str) -> bool:
    """Whether files of MXNet are in a module, or in one below it."""
    place = name.removeprefix("mx.")
    return any(each == place or each.startswith(f"{place}.") for each in FILES)


def _is_import_from(frame: FrameType) -> bool:
    """Whether a frame is at the name of `from module import name`."""
    return frame.f_code.co_code[frame.f_lasti] == _IMPORT_FROM
