# SPDX-License-Identifier: Apache-2.0
"""What is to be said of a program, line by line."""

from __future__ import annotations

import os
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from mx.migrate import verdicts
from mx.migrate.notebooks import read_notebook
from mx.migrate.uses import Program, Use, read


class Finding(NamedTuple):
    """Something to know of a line.

    Attributes
    ----------
    file, line : where
    name : of MXNet, such as `mx.np.zeros`, or of an environment variable
    state : `absent`, `different`, `deprecated`, or `unreadable` for a file
    advice : what there is instead, or how it differs
    """

    file: str
    line: int
    name: str
    state: str
    advice: str


def examine(path: str | os.PathLike[str]) -> list[Finding]:
    """What is absent, different or deprecated in a program or notebook, or in all of them below a folder.

    Files are read, not run. A line of a notebook is in the cell whose number follows the file's name: `train.ipynb#3`.
    Types are not inferred: methods of objects count where the program names their class.

    Raises
    ------
    OSError  there is no such file
    """
    place = Path(path)
    files = sorted((*place.rglob("*.py"), *place.rglob("*.ipynb"))) if place.is_dir() else [place]
    return [finding for file in files for finding in _of_file(file)]


def _of_file(file: Path) -> list[Finding]:
    try:
        if file.suffix == ".ipynb":
            return _of_notebook(file)
        with tokenize.open(file) as text:
            source = text.read()
        return examine_source(source, str(file))
    except (SyntaxError, UnicodeDecodeError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        return [Finding(str(file), line, "", "unreadable", f"this is no Python 3: {error}")]
    except (RecursionError, MemoryError):
        return [Finding(str(file), 1, "", "unreadable", "expressions are nested too deeply")]


def _of_notebook(file: Path) -> list[Finding]:
    try:
        notebook = read_notebook(file.read_text("utf-8"))
    except ValueError as error:
        return [Finding(str(file), 1, "", "unreadable", str(error))]
    found = [
        Finding(f"{file}#{place.cell}", place.line, "", "unreadable", f"this is no Python 3: {error.msg}")
        for place, error in notebook.errors
    ]
    for each in examine_source(notebook.source, str(file)):
        place = notebook.places[each.line - 1]
        found.append(each._replace(file=f"{file}#{place.cell}", line=place.line))
    return found


def examine_source(source: str, file: str = "<program>") -> list[Finding]:
    """As `examine`, for the text of one program.

    Raises
    ------
    SyntaxError  it is no Python 3
    """
    program = read(source, file)
    found = [*_of_uses(program, file), *_of_methods(program, file)]
    return sorted(dict.fromkeys(found))


def _of_uses(program: Program, file: str) -> Iterator[Finding]:
    for use in program.uses:
        if use.name.endswith("?"):  # perhaps of `from mxnet import *`
            use = use._replace(name=use.name[:-1])
            if not _is_absent_of_mxnet(use):
                continue
        for verdict in verdicts.of_name(use.name):
            yield Finding(file, use.line, use.name, *verdict)
        if use.call is not None:
            for verdict in verdicts.of_call(use.name, use.call):
                yield Finding(file, use.line, use.name, *verdict)


def _is_absent_of_mxnet(use: Use) -> bool:
    """Whether a name that nothing here binds is one of MXNet that is absent; others may be of anything."""
    return any(
        verdict.state == "absent" and "has no attribute" not in verdict.advice
        for verdict in verdicts.of_name(use.name)
    )


def _of_methods(program: Program, file: str) -> Iterator[Finding]:
    classes = list(dict.fromkeys(use.name for use in program.uses if use.call is not None))
    for method in program.methods:
        said = [*verdicts.of_methods(classes, method.name)]
        if method.call is not None:
            said += verdicts.of_arguments(method.call)
        for verdict in said:
            yield Finding(file, method.line, f".{method.name}", *verdict)
