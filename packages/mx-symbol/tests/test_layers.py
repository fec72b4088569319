# SPDX-License-Identifier: Apache-2.0
"""The folders of mx_symbol are layers: what a file imports when it is loaded lies in its folder or below."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(find_spec("mx_symbol").origin).parent

#: what a folder may import when it is loaded: itself and those before it
LAYERS = ("graph", "passes", "memory", "runtime", "symbol", "serialization")


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix("__init__").removesuffix(".")


MODULES = {_name(path): path for path in ROOT.rglob("*.py")}


def _imports(path: Path) -> Iterator[str]:
    """Modules of this package that a file imports when it is loaded."""

    def visit(node: ast.AST) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            typing = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)
            if typing or isinstance(child, ast.FunctionDef):
                continue
            if isinstance(child, ast.ImportFrom) and (child.module or "").split(".")[0] == "mx_symbol":
                base = child.module.removeprefix("mx_symbol").removeprefix(".")
                for alias in child.names:
                    inner = f"{base}.{alias.name}".removeprefix(".")
                    yield inner if inner in MODULES else base
            yield from visit(child)

    return visit(ast.parse(path.read_text()))


def test_folders_import_those_below_them():
    for name, path in MODULES.items():
        folder = name.split(".")[0]
        if folder not in LAYERS:
            continue
        for other in _imports(path):
            below = other.split(".")[0]
            if below in LAYERS:
                assert LAYERS.index(below) <= LAYERS.index(folder), f"{name} imports {other}"
