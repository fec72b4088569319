# SPDX-License-Identifier: Apache-2.0
"""Checks of subcommands of `mx`: that they can be called, and describe themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import click

from mx_core.plugins import specs
from mx_core.plugins.registries import Entry
from mx_core.testing.checks.result import Result, attempt, check_target, name_of


def check_command(entry: Entry) -> Iterator[Result]:
    """Its name, and what its `--help` shows; it is not run."""
    imported = list(check_target(entry))
    yield from imported
    if any(result.error for result in imported):
        return
    yield attempt(name_of(entry), "it can be called by its name", partial(_check_name, entry.name))
    yield attempt(name_of(entry), "it describes itself", partial(_check_help, entry))
    yield Result(name_of(entry), "what it does", None, "commands are not run")


def _check_name(name: str) -> None:
    """A word, and for one of several that share it, such as `launch@mpi`, what tells them apart."""
    assert name not in specs.OWN_COMMANDS, f"mx has a command {name!r} of its own, which comes first"
    assert re.fullmatch(r"[\w-]+(@[\w-]+)?", name) and not name.startswith("-"), (
        f"expected a word of letters, digits and hyphens, got {name!r}"
    )


def _check_help(entry: Entry) -> None:
    command = specs.resolve(entry.value.command)
    assert isinstance(command, click.Command), f"expected a click command, got {command!r:.100}"
    command.get_help(click.Context(command, info_name=entry.name))
    assert command.help or command.short_help, "it has no help: give its function a docstring"
