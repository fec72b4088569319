# SPDX-License-Identifier: Apache-2.0
"""Commands that several plug-ins have: `name@engine` is what `mx name --engine engine` runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from mx_core import plugins

_OPTION = "--engine"
#: of commands of mx that other distributions bring: which one for which engine
_BROUGHT_BY: Mapping[str, Mapping[str, str]] = {
    "launch": {"mpi": "mx-kvstore-mpi", "ray": "mx-kvstore-ray"},
}


def of(name: str) -> list[str]:
    """The engines of a command, in the order of their names."""
    names = (each.partition("@") for each in plugins.registry("commands").names())
    return sorted(engine for command, _, engine in names if command == name and engine)


def missing(name: str, engine: str = "") -> str:
    """Which distribution brings a command with an engine, or with any; empty where mx knows of none."""
    known = _BROUGHT_BY.get(name, {})
    wanted = [known[engine]] if engine in known else [] if engine else list(known.values())
    return f"{' or '.join(wanted)} brings it: pip install {wanted[0]}" if wanted else ""


class Engine(click.ParamType):
    """The type of option `--engine` in a plug-in's command: its own engine, which is also its value.

    The help lists the engines that are installed. Another one that is installed never comes here, as it has a command
    of its own.

    Parameters
    ----------
    command, own : str
        `launch` and `ray` for what is registered as `launch@ray`.

    Threads: any.
    """

    name = "engine"

    def __init__(self, command: str, own: str) -> None:
        self._command = command
        self._own = own

    def _installed(self) -> list[str]:
        return sorted({self._own, *of(self._command)})

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """The engines, as click shows choices."""
        return f"[{'|'.join(self._installed())}]"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuses another engine; the message says what brings it."""
        if value != self._own:
            hint = missing(self._command, value)
            installed = ", ".join(self._installed())
            self.fail(f"engine {value!r} is not installed; there is {installed}. {hint}".rstrip(), param, ctx)
        return value


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
