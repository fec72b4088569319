# SPDX-License-Identifier: Apache-2.0
"""What the constructor of an optimizer takes, for messages."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Sequence


def arguments_of(kind: type) -> list[str]:
    """Names of the parameters of a class's constructor and of those that it hands others to."""
    names: dict[str, None] = {}
    for each in kind.__mro__:
        if "__init__" not in vars(each) or each is object:
            continue
        parameters = list(inspect.signature(vars(each)["__init__"]).parameters.values())[1:]
        named = [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        names.update(dict.fromkeys(named))
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return list(names)


def unknown_arguments(kind: type, given: Sequence[str]) -> str:
    """A message that names arguments which a constructor does not take, those that it takes, and the closest ones."""
    known = arguments_of(kind)
    close = {name: _closest(name, known) for name in given}
    meant = [f"{found!r}" for found in close.values() if found]
    hint = f". Did you mean {', '.join(meant)}?" if meant else ""
    return f"unknown arguments: {', '.join(given)}; known: {', '.join(known)}{hint}"


def _closest(name: str, known: Sequence[str]) -> str | None:
    short = [each for each in known if _initials(each) == name or _initials(name) == each]
    return next(iter([*short, *difflib.get_close_matches(name, known, 1)]), None)


def _initials(name: str) -> str:
    """`lr` of `learning_rate`."""
    words = [word for word in name.split("_") if word]
    return "".join(word[0] for word in words) if len(words) > 1 else ""
