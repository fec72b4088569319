# SPDX-License-Identifier: Apache-2.0
"""Commands that several plug-ins have: `name@engine` is what `mx name --engine engine` runs."""

from __future__ import annotations

from collections.abc import Sequence

import click

from mx_core import plugins

_OPTION = "--engine"


def of(name: str) -> list[str]:
    """The engines of a command, in the order of their names."""
    names = (each.partition("@") for each in plugins.registry("commands").names())
    return sorted(engine for command, _, engine in names if command == name and engine)


def asked(name: str, words: Sequence[str], commands: Sequence[click.Command]) -> str | None:
    """The engine of a command that the words after it ask for; None where they ask for none, or another.

    Only words before the first argument count: what follows may be a program with options of its own.

    Parameters
    ----------
    name : str
    words : sequence of str
    commands : sequence of click.Command
        Those of the name, whose options are known.
    """
    takes: dict[str, int] = {}
    for command in commands:
        for option in command.params:
            if isinstance(option, click.Option):
                values = 0 if option.is_flag or option.count else option.nargs
                takes.update(dict.fromkeys((*option.opts, *option.secondary_opts), values))
    left = list(words)
    while left and left[0].startswith("-") and left[0] != "--":
        word = left.pop(0)
        option_name, sign, value = word.partition("=")
        if option_name == _OPTION:
            found = value if sign else (left or [""])[0]
            return found if found in of(name) else None
        if not sign:
            del left[: takes.get(word, 0)]
    return None
