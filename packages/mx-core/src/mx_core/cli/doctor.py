# SPDX-License-Identifier: Apache-2.0
"""`mx doctor`: what an error report needs, and what looks wrong."""

from __future__ import annotations

import json
import platform
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib.metadata import Distribution, PackageNotFoundError, distributions, version
from typing import Any

import click

from mx_core import environment, plugins, services
from mx_core.cli.table import table
from mx_core.errors import MXNetError
from mx_core.plugins.discovery import unknown_disabled
from mx_core.plugins.examine import examine as examine_plugins
from mx_core.plugins.installed import misnamed
from mx_core.plugins.points import normalised

Report = dict[str, dict[str, str]]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def doctor(context: click.Context, as_json: bool) -> None:
    """Show versions, devices, plug-ins, settings and problems.

    The exit status is 1 if there is a problem.
    """
    report = examine()
    if as_json:
        click.echo(json.dumps(report, indent=2))
    else:
        for title, lines in report.items():
            if lines:
                click.echo(title)
                click.echo(table((f"  {key}", value) for key, value in lines.items()))
    context.exit(int(bool(report["problems"])))


def examine() -> Report:
    """The report; section `problems` is empty when all is well."""
    problems: dict[str, str] = {}
    examine_plugins()
    records = plugins.plugins()
    devices = _devices(problems)
    interfaces = _interfaces(devices, problems)  # sets aside what does not start
    for fault in plugins.faults():
        problems[f"plug-in {fault.entry.plugin}: {fault.entry.kind} {fault.entry.name}"] = fault.error
    for name, error in misnamed().items():
        problems[f"distribution {name}"] = error
    for name, close in unknown_disabled(records).items():
        problems[f"MX_DISABLE_PLUGINS {name}"] = "no such plug-in" + (
            f"; did you mean {close}?" if close else ""
        )
    for record in records:
        if record.state in ("broken", "incompatible"):
            problems[f"plug-in {record.name}"] = record.error or record.state
    known = dict(environment.VARIABLES)
    for record in records:
        known.update(record.info.variables)
    for name, close in environment.unknown(known).items():
        problems[name] = "nothing reads this variable" + (f"; did you mean {close}?" if close else "")
    report: Report = {
        "versions": _versions(),
        "interfaces": interfaces,
        "devices": devices,
        "plug-ins": {r.name: f"{r.state}  {r.distribution} {r.version}  {r.seconds:.3f} s" for r in records},
    }
    for plugin, lines in plugins.diagnostics().items():
        report[f"plug-in {plugin}"] = lines
        if "error" in lines:
            problems[f"mx_diagnostics of {plugin}"] = lines["error"]
    report["variables"] = environment.settings()
    report["problems"] = problems
    return report


def _versions() -> dict[str, str]:
    found = {"python": sys.version.split()[0], "platform": platform.platform()}
    for name in ("numpy", "pluggy", "click"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    own = {d.name: d.version for d in _readable() if d.name and _is_own(d.name)}
    return found | dict(sorted(own.items()))


def _readable() -> Iterator[Distribution]:
    """Distributions whose metadata can be read; discovery tells of the others that have plug-ins."""
    for found in distributions():
        with suppress(Exception):
            found.metadata, found.requires  # noqa: B018  # reads them
            yield found


def _is_own(name: str) -> bool:
    return name == "mx" or name.startswith(("mx-", "mx_"))


#: title, how it is asked for, its table, the registry it is from, the distribution that brings it
_SERVICES: tuple[tuple[str, Callable[[], Any], str, str, str], ...] = (
    ("engine", services.engine, "mx.engine.v1", "engines", "mx-engine"),
    ("storage cpu", partial(services.storage, "cpu"), "mx.storage.v1", "storage_managers", "mx-storage"),
    ("random cpu", partial(services.random, "cpu"), "mx.resource.v1", "resources", "mx-storage"),
)


def _is_provided(kind: str) -> bool:
    """Whether a plug-in registered a service of a kind for main memory."""
    return any(getattr(entry.value, "device", "cpu") == "cpu" for entry in plugins.registry(kind).items())


def _is_required(provider: str) -> bool:
    """Whether something that is installed needs a distribution."""
    return any(
        normalised(re.split(r"[^\w.-]", line, maxsplit=1)[0]) == provider and "extra ==" not in line
        for found in _readable()
        for line in found.requires or ()
    )


def _interfaces(devices: dict[str, str], problems: dict[str, str]) -> dict[str, str]:
    """The services' C tables, checked as a consumer would check them."""
    found = {}
    for title, get, capsule, kind, provider in _SERVICES:
        if _is_provided(kind) or _is_required(provider):
            found[title] = _interface(title, get, capsule, problems)
        else:  # a part of mx alone, which does without
            found[title] = f"not installed; {provider} brings it"
    for name in plugins.registry("devices").names():
        if devices[name] not in ("0", "unusable"):
            title = f"device {name}"
            found[title] = _interface(title, partial(services.device, name), "mx.device.v1", problems)
    return found


def _interface(title: str, get: Callable[[], Any], capsule: str, problems: dict[str, str]) -> str:
    try:
        service = get()
        from mx_core import _native

        _native.check_table(service.capsule, "mx-core")
        size, major, minor = _native.table_head(service.capsule, capsule)
    except (MXNetError, ImportError, ValueError) as error:
        problems[title] = str(error)
        return "unusable"
    return f"{service.name}  {capsule} {major}.{minor}, {size} bytes"


def _devices(problems: dict[str, str]) -> dict[str, str]:
    found = {"cpu": "1"}
    for name in plugins.registry("devices").names():
        try:
            found[name] = str(services.device_count(name))
        except MXNetError as error:
            found[name] = "unusable"
            problems[f"device {name}"] = str(error)
    return found
