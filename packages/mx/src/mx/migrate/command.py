# SPDX-License-Identifier: Apache-2.0
"""`mx migrate`: what a program for MXNet 1.x needs before it runs here."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import click

from mx.migrate.findings import Finding, examine
from mx_core.cli.table import table


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def migrate(context: click.Context, paths: tuple[Path, ...], as_json: bool) -> None:
    """List what programs for MXNet use that is absent or differs.

    Names that are absent, different or deprecated here, with what to do. PATHS are Python files, notebooks
    or folders. They are read, not run. The exit status is 1 if something is absent.
    """
    found = [finding for path in paths for finding in examine(path)]
    if as_json:
        click.echo(json.dumps([finding._asdict() for finding in found], indent=2))
    else:
        click.echo(_text(found))
    context.exit(int(any(finding.state in ("absent", "unreadable") for finding in found)))


def _text(found: list[Finding]) -> str:
    if not found:
        return "nothing is absent, different or deprecated"
    rows = [(f"{each.file}:{each.line}", each.state, each.name, each.advice) for each in found]
    counts = Counter(each.state for each in found)
    return f"{table(rows)}\n\n" + ", ".join(f"{counts[state]} {state}" for state in sorted(counts))
