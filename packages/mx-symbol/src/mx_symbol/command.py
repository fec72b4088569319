# SPDX-License-Identifier: Apache-2.0
"""`mx graph`: shows a symbol file before and after graph passes."""

from __future__ import annotations

import re
from pathlib import Path

import click

from mx_core.errors import ArgumentError, ShapeError
from mx_core.graph import STAGES
from mx_symbol.graph import show
from mx_symbol.passes.stages import Stage, trace, written
from mx_symbol.serialization.json_reader import load

_FORMS = {"text": show.text, "dot": show.dot, "svg": show.svg}


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, equals, numbers = text.partition("=")
    try:
        if equals:
            return name, tuple(int(n) for n in re.split("[x,]", numbers.strip("()")) if n.strip())
    except ValueError:
        pass
    raise ArgumentError(f"--shape: expected NAME=1,3,224,224, got {text!r}")


def _traced(
    file: Path, shapes: dict[str, tuple[int, ...]], train: bool, passes: str | None = None
) -> list[Stage]:
    """Every pass on the graph of a symbol file."""
    try:
        return list(trace(load(str(file)), shapes, train, passes))
    except ShapeError as error:
        raise ShapeError(f"{error}; state shapes with --shape NAME=1,3,224,224") from error


@click.group()
def graph() -> None:
    """Print or draw the graph of a symbol file."""


@graph.command("show")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--shape", "shapes", multiple=True, metavar="NAME=SHAPE", help="Shape of an input: data=1,3,224,224."
)
@click.option("--stage", type=click.Choice(["file", "bound", *STAGES]),
              help="Graph after the passes of this stage; bound: before all passes; file: as in the file. "
              "The default is program, or file if there is no --shape.")  # fmt: skip
@click.option("--pass", "name", help="Graph after this pass instead.")
@click.option("--train", is_flag=True, help="Use the program of a training step.")
@click.option("--passes", help="Passes that run, as in MX_PASSES.")
@click.option(
    "--form", type=click.Choice(list(_FORMS)), default="text", show_default=True, help="Output format."
)
def show_graph(
    file: Path,
    shapes: tuple[str, ...],
    stage: str | None,
    name: str | None,
    train: bool,
    passes: str | None,
    form: str,
) -> None:
    """Print or draw the graph of a symbol FILE."""
    given = dict(map(_shape, shapes))
    if stage is None:
        stage = "program" if given or name is not None else "file"
    if stage == "file" and name is None:
        click.echo(_FORMS[form](written(load(str(file)), given)))
        return
    found = _traced(file, given, train, passes)
    if name is not None:
        chosen = [step.after for step in found if step.name == name]
        if not chosen:
            raise ArgumentError(
                f"--pass: {name!r} did not run; these did: {', '.join(s.name for s in found)}"
            )
        result = chosen[-1]
    elif stage == "bound":
        result = found[0].before
    else:
        upto = STAGES[: STAGES.index(stage) + 1]
        result = [step.after for step in found if step.stage in upto][-1]
    click.echo(_FORMS[form](result))


@graph.command("passes")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--shape", "shapes", multiple=True, metavar="NAME=SHAPE", help="Shape of an input: data=1,3,224,224."
)
@click.option("--train", is_flag=True, help="Use the program of a training step.")
def show_passes(file: Path, shapes: tuple[str, ...], train: bool) -> None:
    """Count the nodes before and after each graph pass."""
    for step in _traced(file, dict(map(_shape, shapes)), train):
        click.echo(f"{step.stage:10} {step.name:14} {len(step.before.nodes):6} -> {len(step.after.nodes):6}")
