# SPDX-License-Identifier: Apache-2.0
"""Rows of the table of deviations from MXNet, by the operators they name."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from generate.examples import shown_operators
from generate.naming import shown

PAGE = Path("docs") / "decisions" / "0008-deviations-from-mxnet.md"


class Difference(NamedTuple):
    """One row, in Markdown."""

    what: str
    there: str
    here: str


def rows(root: Path) -> list[Difference]:
    """The table."""
    lines = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", (root / PAGE).read_text(), re.M)
    return [Difference(*line) for line in lines[1:]]


def by_operator(root: Path) -> dict[str, list[Difference]]:
    """Operator -> the rows whose first column names it or an alias."""
    found: dict[str, list[Difference]] = defaultdict(list)
    known = {
        name: op.name for op in shown_operators() for name in (*op.aliases, shown(op).split(".")[-1], op.name)
    }
    for row in rows(root):
        for name in dict.fromkeys(re.findall(r"`(\w+)", row.what)):
            if name in known and row not in found[known[name]]:
                found[known[name]].append(row)
    return dict(found)
