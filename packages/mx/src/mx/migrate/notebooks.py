# SPDX-License-Identifier: Apache-2.0
"""Programs in notebooks: the code of all cells as one text, and where each line of it stands."""

from __future__ import annotations

import ast
import json
import re
from typing import NamedTuple

#: lines of IPython: magics, shell commands, questions
_COMMAND = re.compile(r"^(\s*)(?:[%!?]|\w[\w.]*\?{1,2}\s*$|\w[\w, ]*=\s*[%!]).*$")


class Place(NamedTuple):
    """Where a line of the joined text stands.

    Attributes
    ----------
    cell : number of the cell, from 1, texts counted too
    line : in the cell, from 1
    """

    cell: int
    line: int


class Notebook(NamedTuple):
    """The code of a notebook.

    Attributes
    ----------
    source : Python of all cells that can be read
    places : of its lines
    errors : of the cells that cannot
    """

    source: str
    places: list[Place]
    errors: list[tuple[Place, SyntaxError]]


def read_notebook(text: str) -> Notebook:
    """Joins the cells of a Jupyter notebook; lines of IPython are left out.

    Raises
    ------
    ValueError  it is no notebook
    """
    try:
        cells = json.loads(text)["cells"]
        codes = [
            (number, "".join(cell["source"]))
            for number, cell in enumerate(cells, 1)
            if cell["cell_type"] == "code"
        ]
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"it is no notebook: {type(error).__name__}: {error}") from error
    lines: list[str] = []
    places: list[Place] = []
    errors = []
    for number, code in codes:
        if code.lstrip().startswith("%%"):  # of another language, or of a shell
            continue
        own = [_COMMAND.sub(r"\1pass", line) for line in code.split("\n")]
        try:
            ast.parse("\n".join(own))
        except (SyntaxError, ValueError) as error:
            told = error if isinstance(error, SyntaxError) else SyntaxError(str(error))
            errors.append((Place(number, told.lineno or 1), told))
            continue
        lines += own
        places += [Place(number, line) for line in range(1, len(own) + 1)]
    return Notebook("\n".join(lines), places, errors)
