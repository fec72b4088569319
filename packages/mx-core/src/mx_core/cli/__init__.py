# SPDX-License-Identifier: Apache-2.0
"""The command `mx`: the group in `group.py`, and one module for each of mx-core's own subcommands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mx_core.cli import begin
from mx_core.imports import lazy

if TYPE_CHECKING:
    from mx_core.cli.group import cli as cli

__getattr__, __dir__, __all__ = lazy(__name__, {"mx_core.cli.group": ["cli"]})
__all__ += ["main"]


def main() -> None:
    """Entry point of the console script. Ctrl-C ends it at once until its command begins."""
    begin.begin()
    from mx_core.cli.group import main as run

    run()
