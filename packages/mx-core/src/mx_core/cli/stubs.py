# SPDX-License-Identifier: Apache-2.0
"""`mx stubs`: type stubs of the operators that are installed."""

from __future__ import annotations

from pathlib import Path

import click

from mx_core import plugins
from mx_core.cli import stub_text as generator


@click.command()
@click.argument("folder", required=False, type=click.Path(file_okay=False, path_type=Path))
def stubs(folder: Path | None) -> None:
    """Write type stubs of operator functions.

    Editors and type checkers read them. They are written into FOLDER, or next to the installed packages. Run the
    command again after a plug-in was installed or removed.
    """
    target = generator.site_packages() if folder is None else folder
    for path in generator.write(target, plugins.stub_modules()):
        click.echo(path)
