# SPDX-License-Identifier: Apache-2.0
"""Plain-text tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(rows: Iterable[Sequence[str]]) -> str:
    """Rows with their columns aligned; the last column is not padded."""
    lines = [tuple(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            [*(cell.ljust(width) for cell, width in zip(line[:-1], widths, strict=False)), line[-1]]
        ).rstrip()
        for line in lines
    )
