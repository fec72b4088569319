# SPDX-License-Identifier: Apache-2.0
"""`mx engine`: the engine's own figures."""

from __future__ import annotations

import click

from mx_engine.engines import TYPES, create


@click.group()
def engine() -> None:
    """Measure the dependency engine."""


@engine.command()
@click.option("--type", "name", type=click.Choice(TYPES), default=TYPES[0], show_default=True, help="Engine.")
@click.option("--workers", type=click.IntRange(1), default=2, show_default=True, help="Compute threads.")
@click.option(
    "--operations", type=click.IntRange(10), default=100_000, show_default=True, help="Operations per graph."
)
def bench(name: str, workers: int, operations: int) -> None:
    """Measure the time of empty operations, in a few seconds."""
    from mx_engine.measure import figures

    click.echo(f"{name}, {workers} workers, {operations} empty operations, medians of 5")
    for what, value, unit in figures(create(name, workers=workers), operations):
        click.echo(f"{what:24} {value:8.3f} {unit}")
