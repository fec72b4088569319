# SPDX-License-Identifier: Apache-2.0
"""Writes the pages under reference/generated from what is installed and from the READMEs."""

from __future__ import annotations

import shutil
from pathlib import Path

from generate import commands, interface, migration, modules, operators, plans, readmes, settings


def generate(docs: Path) -> None:
    """Fills `docs/reference/generated` anew."""
    target = docs / "reference" / "generated"
    shutil.rmtree(target, ignore_errors=True)
    for name, writer in (
        ("readmes", readmes.write),
        ("interface", interface.write),
        ("modules", modules.write),
        ("operators", operators.write),
        ("mxnet", migration.write),
        ("settings", settings.write),
        ("commands", commands.write),
        ("plans", plans.write),
    ):
        (target / name).mkdir(parents=True)
        writer(target / name, docs.parent)
