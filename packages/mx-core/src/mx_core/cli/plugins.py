# SPDX-License-Identifier: Apache-2.0
"""`mx plugins`: which plug-ins are installed and loaded, what they register, and their contract tests."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter, defaultdict
from importlib.metadata import PackageNotFoundError, distribution

import click

from mx_core import plugins
from mx_core.cli.table import table
from mx_core.plugins.discovery import PluginRecord
from mx_core.plugins.examine import examine
from mx_core.plugins.hookspecs import GROUP
from mx_core.plugins.installed import misnamed
from mx_core.plugins.points import normalised

FAILED = ("broken", "incompatible")


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def plugins_command(context: click.Context, as_json: bool) -> None:
    """List plug-ins with their states.

    The exit status is 1 if a plug-in is broken or incompatible, or if a part of one is disabled.
    """
    if context.invoked_subcommand is not None:
        return
    examine()
    records = plugins.plugins()
    if as_json:
        click.echo(json.dumps([as_dict(record) for record in records], indent=2))
    elif records:
        click.echo(table((r.name, r.state, r.distribution, r.version, _summary(r)) for r in records))
    else:
        click.echo("no plug-ins are installed")
    context.exit(int(bool(plugins.faults()) or any(record.state in FAILED for record in records)))


@plugins_command.command()
@click.argument("name")
def show(name: str) -> None:
    """Show what a plug-in registered, or why it failed.

    NAME is that of the entry point, or of the distribution.
    """
    examine()
    for record in _records(name):
        click.echo(record.describe())
        rows = [("summary", record.info.summary), ("url", record.info.url), ("module", record.module)]
        rows.append(("hooks", ", ".join(record.hooks)))
        rows.append(("loaded in", f"{record.seconds:.3f} s"))
        click.echo(table((f"  {key}", value) for key, value in rows if value))
        verb = "registered" if record.state == "loaded" else "was about to register"
        for kind, names in _by_kind(record).items():
            click.echo(f"  {verb} {kind}: {', '.join(names)}")
        for fault in plugins.faults(record.name):
            click.echo(
                f"  set aside {fault.entry.kind}: {fault.entry.name} at {fault.entry.origin}: {fault.error}"
            )
            if fault.traceback:
                click.echo(fault.traceback.rstrip())
        if record.traceback:
            click.echo(record.traceback.rstrip())


@plugins_command.command()
@click.argument("name")
@click.option(
    "--limit",
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds that one step of a check may take, such as one run of a kernel. A check of many steps may take five "
    "times as long. By default 30, and longer while other programs need the processors.",
)
@click.pass_context
def check(context: click.Context, name: str, limit: float | None) -> None:
    """Run the contract tests on what a plug-in registered.

    NAME is that of the entry point, or of the distribution. The tests run in a process of their own. The exit status
    is 1 if one fails. What has no test is listed and does not count as a failure. What takes long is told on standard
    error.
    """
    try:
        from mx_core.testing.guard import ENDS, check_guarded
    except ModuleNotFoundError as error:
        if error.name != "numpy":
            raise
        raise click.ClickException(f"the checks need NumPy: {error}") from error

    failed = checked = endless = 0
    for record in _records(name):
        if record.state != "loaded":
            raise click.ClickException(record.describe())
        for result in check_guarded(record, limit, _tell_waiting):
            checked += 1
            failed += result.error is not None
            endless += result.error is not None and result.check == ENDS
            state = (
                "FAILED" if result.error is not None else "ok" if result.unchecked is None else "not checked"
            )
            click.echo(f"{state:6}  {result.subject}: {result.check}")
            if result.error is not None or result.unchecked is not None:
                click.echo(f"        {result.error or result.unchecked}")
    if not checked:
        click.echo("not checked: it registers nothing")
    if endless:  # so would this process be, which has loaded the plug-in, too
        sys.stdout.flush()
        os._exit(1)
    context.exit(int(failed > 0))


def _tell_waiting(what: str, seconds: float) -> None:
    click.echo(f"        {seconds:.0f} s: {what}", err=True)


def as_dict(record: PluginRecord) -> dict[str, object]:
    """A record for JSON."""
    return {
        "name": record.name,
        "state": record.state,
        "distribution": record.distribution,
        "version": record.version,
        "module": record.module,
        "error": record.error,
        "seconds": round(record.seconds, 3),
        "set_aside": [[f.entry.kind, f.entry.name, f.error] for f in plugins.faults(record.name)],
        "contributions": _by_kind(record),
    }


def _records(name: str) -> list[PluginRecord]:
    """The plug-in of a name, or those of the distribution of that name."""
    everything = plugins.plugins()
    found = [record for record in everything if record.name == name]
    found = found or [record for record in everything if record.distribution == normalised(name)]
    if not found:
        known = ", ".join(record.name for record in everything) or "none"
        wrong = "".join(f"; {where}: {error}" for where, error in misnamed().items())
        raise click.ClickException(
            f"no plug-in {name!r} is installed; there are: {known}{wrong}{_without(name)}"
        )
    return found


def _without(name: str) -> str:
    """What is wrong with a distribution of this name that brings no plug-in."""
    try:
        distribution(name)
    except (PackageNotFoundError, ValueError):
        return ""
    return f"; distribution {name!r} is installed and has no entry point of the group {GROUP!r}"


def _by_kind(record: PluginRecord) -> dict[str, list[str]]:
    kinds: dict[str, list[str]] = defaultdict(list)
    for kind, name in record.contributions:
        kinds[kind].append(name)
    return dict(kinds)


def _summary(record: PluginRecord) -> str:
    if record.error:
        return record.error.splitlines()[0]
    counts = Counter(kind for kind, _ in record.contributions)
    parts = [_counted(count, kind) for kind, count in counts.items()]
    parts += [f"SET ASIDE {fault.entry.name}: {fault.error}" for fault in plugins.faults(record.name)]
    if record.seconds >= 1 and not record.is_first_party:
        parts.append(f"loaded in {record.seconds:.1f} s")
    return ", ".join(parts)


def _counted(count: int, kind: str) -> str:
    """`2 graph passes`, `1 graph pass`."""
    words = kind.replace("_", " ")
    if count == 1:
        words = words.removesuffix("es") if words.endswith("sses") else words.removesuffix("s")
    return f"{count} {words}"
