# SPDX-License-Identifier: Apache-2.0
"""The folders of mx_symbol are layers: imports go down, and no two files import each other when they are loaded."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(find_spec("mx_symbol").origin).parent

#: what a folder may import when it is loaded: itself and those before it
LAYERS = ("graph", "passes", "memory", "runtime", "symbol", "serialization")

#: imports made when a function is called, against the layers or within a circle, and why each is there
LATE = {
    # methods of Symbol that hand it to what is built on symbols
    ("symbol.symbol", "runtime.bind"),
    ("symbol.symbol", "serialization.json_reader"),
    # methods mixed into Symbol that make symbols of it
    ("symbol.arithmetic", "symbol"),
    ("symbol.arithmetic", "symbol.functions"),
    ("symbol.creation", "symbol.functions"),
    ("symbol.fluent", "symbol.creation"),
    ("symbol.fluent", "symbol.functions"),
    # an executor that is reshaped is bound again
    ("runtime.executor", "runtime.reshape"),
    # a CachedOp may run as partitions, of which most are CachedOps of a smaller symbol
    ("runtime.partitions", "runtime.cached_op"),
    ("runtime.partitions", "symbol"),
    ("runtime.cached_op", "symbol"),
    # a plan draws itself
    ("memory.plan", "memory.drawing"),
}


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix("__init__").removesuffix(".")


MODULES = {_name(path): path for path in ROOT.rglob("*.py")}


def _imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Modules of this package that a file imports, and whether only when a function is called."""

    def visit(node: ast.AST, late: bool) -> Iterator[tuple[str, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                continue
            if isinstance(child, ast.ImportFrom) and (child.module or "").split(".")[0] == "mx_symbol":
                base = child.module.removeprefix("mx_symbol").removeprefix(".")
                for alias in child.names:
                    inner = f"{base}.{alias.name}".removeprefix(".")
                    yield inner if inner in MODULES else base, late
            yield from visit(child, late or isinstance(child, ast.FunctionDef))

    return visit(ast.parse(path.read_text()), False)


def test_files_import_each_other_in_one_direction():
    graph = {
        name: {other for other, late in _imports(path) if not late} - {"_core"}
        for name, path in MODULES.items()
    }
    list(TopologicalSorter(graph).static_order())  # raises CycleError


def test_folders_import_those_below_them():
    for name, path in MODULES.items():
        folder = name.split(".")[0]
        if folder not in LAYERS:
            continue
        for other, late in _imports(path):
            below = other.split(".")[0]
            if not late and below in LAYERS:
                assert LAYERS.index(below) <= LAYERS.index(folder), f"{name} imports {other}"


def test_late_imports_are_the_ones_that_are_justified():
    graph = {name: {other for other, _ in _imports(path)} for name, path in MODULES.items()}

    def reaches(start: str, end: str) -> bool:
        seen, stack = set(), [start]
        while stack:
            at = stack.pop()
            if at == end:
                return True
            if at not in seen:
                seen.add(at)
                stack += graph.get(at, ())
        return False

    circular = {
        (name, other)
        for name, path in MODULES.items()
        for other, late in _imports(path)
        if late and reaches(other, name)
    }
    assert circular == LATE
