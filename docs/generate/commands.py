# SPDX-License-Identifier: Apache-2.0
"""The page of the command `mx`: what each command says with `--help`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from mx_core.cli import cli

#: columns of the text, as in most terminals
WIDTH = 80


def write(target: Path, root: Path) -> None:
    """`index.md`."""
    (target / "index.md").write_text(page())


def page() -> str:
    """A section per command, subcommands behind theirs."""
    lines = [
        "# The command `mx`",
        "",
        "mx-core has this command. Other packages add subcommands with the hook `mx_register_commands`.",
        "The exit status is 0 on success, 1 if there is an error or a problem, and 2 if the arguments are wrong.",
        "",
    ]
    for name, text in commands():
        lines += [f"{'##' if name.count(' ') < 2 else '###'} {name}", "", "```text", text, "```", ""]
    return "\n".join(lines)


def commands() -> Iterator[tuple[str, str]]:
    """Name with those of its parents, and the help."""
    yield from _of(cli, click.Context(cli, info_name="mx"))


def _of(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    context.max_content_width = context.terminal_width = WIDTH
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None:
                yield from _of(found, click.Context(found, info_name=name, parent=context))
