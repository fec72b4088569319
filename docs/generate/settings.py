# SPDX-License-Identifier: Apache-2.0
"""The page of environment variables, from what mx-core and the plug-ins say that they read."""

from __future__ import annotations

from pathlib import Path

from mx_core import plugins
from mx_core.environment import VARIABLES


def write(target: Path, root: Path) -> None:
    """`index.md`."""
    (target / "index.md").write_text(page(variables()))


def variables() -> dict[str, tuple[str, str]]:
    """Name -> the package that states it, meaning."""
    found = {name: ("mx-core", text) for name, text in VARIABLES.items()}
    for record in plugins.plugins():
        for name, text in (record.info.variables if record.info else {}).items():
            found[name] = (record.distribution or record.name, text)
    return found


def page(found: dict[str, tuple[str, str]]) -> str:
    """A table, ours before MXNet's."""
    lines = [
        "# Environment variables",
        "",
        "What the installed packages read, by their own account. `mx doctor` shows those that are set, and tells of",
        "one that nothing reads, with the nearest name. Names that begin with `MXNET_` mean what they mean in MXNet.",
        "They are read when the part that uses them starts, most of them once.",
        "",
        "| variable | stated by | meaning |",
        "|---|---|---|",
    ]
    order = sorted(found, key=lambda name: (name.startswith("MXNET_"), name))
    return (
        "\n".join([*lines, *(f"| `{name}` | {found[name][0]} | {found[name][1]} |" for name in order)]) + "\n"
    )
