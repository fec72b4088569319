# SPDX-License-Identifier: Apache-2.0
"""Docstrings are plain text with back-ticks; this makes reStructuredText of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

_CODE = re.compile(r"(``[^`]+``|`[^`\n]+(?:\n[^`\n]+)?`_?)")
_RAISES = re.compile(r"^( *)(\w+(?:, \w+)*)  +(\S.*)$")
_UNDERLINE = re.compile(r"^ *-{3,} *$")


def protect(docstring: str) -> str:
    """The docstring with characters escaped that reStructuredText would take for markup.

    Code in back-ticks and indented examples stay as they are; entries of a section written on one
    line (`Error  why`) become the two lines of NumPy's form.
    """
    return "\n".join(_entries(_escaped(docstring).split("\n")))


def _escaped(text: str) -> str:
    parts = _CODE.split(text)
    for i, part in enumerate(parts):
        if i % 2:
            parts[i] = "``" + part.strip("`_").replace("\n", " ") + "``"
        else:
            parts[i] = re.sub(r"([*|`])", r"\\\1", re.sub(r"(\w)_(?=\W|$)", r"\1\\_", part))
    return "".join(parts)


def _entries(lines: list[str]) -> list[str]:
    result: list[str] = []
    section = False
    for i, line in enumerate(lines):
        if _UNDERLINE.match(line) and i and lines[i - 1].strip() == "Raises":
            section = True
        elif i + 1 < len(lines) and _UNDERLINE.match(lines[i + 1]):
            section = False
        match = _RAISES.match(line) if section else None
        if match and len(match[1]) == len(lines[i]) - len(lines[i].lstrip()):
            result += [match[1] + match[2], f"{match[1]}    {match[3]}"]
        else:
            result.append(line)
    return result


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table with a row of headings; a column with nothing in it is left out."""
    columns = [i for i in range(len(head)) if any(row[i] for row in rows)]
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in (head, *rows):
        cells = [row[i].replace("\n", " ") for i in columns]
        lines += [f"   {'*' if not n else ' '} - {cell}".rstrip() for n, cell in enumerate(cells)]
    return [*lines, ""]
