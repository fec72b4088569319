# SPDX-License-Identifier: Apache-2.0
"""Writes the table of a package's operators, with which a plug-in registers them without importing them.

python -m mx_core.operator.later acme_ops src/acme_ops/operator_table.py
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mx_core.operator.declaration import Operator
from mx_core.operator.packages import has_name, members, modules_of, operators_in
from mx_core.operator.table import collected
from mx_core.plugins.specs import OperatorSpec


def declared(package: str) -> list[OperatorSpec]:
    """The operators that the modules of a package declare, module by module. They are imported."""
    homes = _homes(package)
    found = []
    for cls in operators_in(package):
        aliases = tuple(cls.aliases)
        backward = tuple(name for name in collected(cls(), {}) if name not in (cls.name, *aliases))
        found.append(OperatorSpec(homes[cls], cls.name, aliases, backward))
    return sorted(found, key=lambda spec: spec.module)


def _homes(package: str) -> dict[type[Operator[Any]], str]:
    """The module of each class: where it is declared, or the first one that has it, if a function has made it."""
    homes: dict[type[Operator[Any]], str] = {}
    for module in modules_of(package):
        for cls in filter(has_name, members(module)):
            if cls not in homes or cls.__module__ == module.__name__:
                homes[cls] = module.__name__
    return homes


def table(package: str) -> str:
    """The table of a package's operators, for `registry.add_later`."""
    return "".join(f"{line}\n" for line in _lines(declared(package)))


def _lines(specs: list[OperatorSpec]) -> Iterator[str]:
    module = ""
    for spec in specs:
        if spec.module != module:
            module = spec.module
            yield module
        backward = [":", *spec.backward] if spec.backward else []
        yield " ".join(("   ", spec.name, *spec.aliases, *backward))


def source(package: str) -> str:
    """A module that has the table as `OPERATORS`."""
    head = '"""Where operators are declared; written by `python -m mx_core.operator.later`."""'
    text = table(package)
    return (
        f'# SPDX-License-Identifier: Apache-2.0\n{head}\n\n# ruff: noqa: E501\nOPERATORS = """\\\n{text}"""\n'
    )


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(source(sys.argv[1]), encoding="utf-8")
