# SPDX-License-Identifier: Apache-2.0
"""The command `mx`; plug-ins add subcommands with `mx_register_commands`."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import click

from mx_core import lifecycle, plugins
from mx_core.build_info import __version__
from mx_core.cli import begin, engines
from mx_core.cli.doctor import doctor
from mx_core.cli.ops import ops
from mx_core.cli.plugins import plugins_command
from mx_core.cli.stubs import stubs
from mx_core.errors import MXNetError, PluginWarning
from mx_core.plugins import specs
from mx_core.plugins.registries import Entry
from mx_core.signals import let_pass


class _Group(click.Group):
    """A group that also has the commands of plug-ins; mx's own names come first."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        theirs = (name.partition("@")[0] for name in plugins.registry("commands").names())
        return sorted({*super().list_commands(ctx), *theirs})

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        own = super().get_command(ctx, name)
        if own is not None:
            return own
        registry = plugins.registry("commands")
        if name in registry:
            return _load(registry.get(name))
        others = engines.of(name)
        return _load(registry.get(f"{name}@{others[0]}")) if len(others) == 1 else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        found = self._resolved(ctx, args)
        begin.end()
        return found

    def _resolved(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        own = super().get_command(ctx, name) is not None  # which runs before plug-ins are loaded
        engine = None if own else engines.asked(name, args[1:], self._every(ctx, name))
        if engine is None:
            hint = engines.missing(name)
            if hint and self.get_command(ctx, name) is None:
                ctx.fail(f"No such command {name!r}. {hint}")
            return super().resolve_command(ctx, args)
        return name, _load(plugins.registry("commands").get(f"{name}@{engine}")), args[1:]

    def _every(self, ctx: click.Context, name: str) -> list[click.Command]:
        """The commands of a name, whatever their engine."""
        registry = plugins.registry("commands")
        found = [_load(registry.get(f"{name}@{engine}")) for engine in engines.of(name)]
        plain = self.get_command(ctx, name) if found else None
        return found if plain is None else [plain, *found]

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # which click makes an ordinary end of
            lifecycle.interrupt()
            raise


def _load(entry: Entry) -> click.Command:
    """A plug-in's command; one that cannot be loaded says so when it is called, not in `--help`."""
    try:
        command = specs.resolve(entry.value.command)
        if isinstance(command, click.Command):
            return command
        problem = f"expected a click command, got {command!r}"
    except Exception as error:
        let_pass(error)
        problem = f"{type(error).__name__}: {error}"

    def fail() -> None:
        raise click.ClickException(f"command {entry.name!r} of {entry} cannot be loaded: {problem}")

    return click.Command(entry.name, callback=fail, short_help="(cannot be loaded)")


@click.group(cls=_Group)
@click.version_option(__version__, prog_name="mx")
def cli() -> None:
    """Inspect this installation of mx, and run the tools of its packages."""
    warnings.simplefilter("ignore", PluginWarning)  # the commands themselves report plug-in states


cli.add_command(plugins_command, "plugins")
cli.add_command(ops, "ops")
cli.add_command(doctor, "doctor")
cli.add_command(stubs, "stubs")


def main() -> None:
    """Runs the command; an error of mx is one line and exit status 1."""
    try:
        cli(prog_name="mx")
    except MXNetError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(1)
