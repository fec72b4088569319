# SPDX-License-Identifier: Apache-2.0
"""Files of a package import each other in one direction; imports within a circle are late, and have a reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TypeGuard

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = sorted(init.parent for init in ROOT.glob("p*s/*/src/*/__init__.py"))

#: imports made when a function is called, because files lead back to each other, and why they do
LATE = {
    # a name that nothing registered yet, or a device, is looked for among the plug-ins
    ("mx_core.context", "mx_core.plugins"),
    ("mx_core.context", "mx_core.services"),
    # kernels are registered, and what a kernel is given is described by operators
    ("mx_core.kernels", "mx_core.operator.simple"),
    ("mx_core.kernels", "mx_core.services"),
    ("mx_core.plugins.registrars", "mx_core.kernels"),
    ("mx_core.plugins.registrars", "mx_core.operator.declaration"),
    # the loader knows what it loads into when it loads, so that `import mx_core.plugins` imports no pluggy
    ("mx_core.plugins.loaded", "mx_core.context"),
    ("mx_core.plugins.loaded", "mx_core.plugins.loading"),
    ("mx_core.plugins.loaded", "mx_core.plugins.registrars"),
    # an operator makes its backward operator, which is one, inferred through the operator it belongs to
    ("mx_core.operator.backward", "mx_core.operator.infer"),
    ("mx_core.operator.backward", "mx_core.operator.simple"),
    ("mx_core.operator.declaration", "mx_core.operator.backward"),
    ("mx_core.operator.simple", "mx_core.operator.derivative"),
    ("mx_core.operator.simple", "mx_core.operator.infer"),
    # a gradient applies operators, which are found by name; what `backward` keeps is a list of its entries
    ("mx_core.operator.gradient", "mx_core.operator.kept_values"),
    ("mx_core.operator.gradient", "mx_core.operator.refusal"),
    ("mx_core.operator.gradient", "mx_core.operators"),
    ("mx_core.operators", "mx_core.operator.derivative"),
    # MXNet's former names of functions of the module that offers them
    ("mx_engine.profiler.former_names", "mx_engine.profiler"),
    # methods of NDArray that hand it to what is built on arrays
    ("mx_ndarray.autograd", "mx_ndarray.recorded_graph"),
    ("mx_ndarray.methods", "mx_ndarray.functions"),
    ("mx_ndarray.methods", "mx_ndarray.views"),
    ("mx_ndarray.ndarray", "mx_ndarray.autograd"),
    ("mx_ndarray.ndarray", "mx_ndarray.exchange"),
    ("mx_ndarray.ndarray", "mx_ndarray.products"),
    ("mx_ndarray.ndarray", "mx_ndarray.views"),
    # an array is made of what NumPy cannot read by way of another library's array
    ("mx_ndarray.creation", "mx_ndarray.exchange"),
    # methods of Symbol that hand it to what is built on symbols
    ("mx_symbol.symbol.symbol", "mx_symbol.runtime.bind"),
    ("mx_symbol.symbol.symbol", "mx_symbol.serialization.json_reader"),
    # methods mixed into Symbol that make symbols of it
    ("mx_symbol.symbol.arithmetic", "mx_symbol.symbol"),
    ("mx_symbol.symbol.arithmetic", "mx_symbol.symbol.functions"),
    ("mx_symbol.symbol.creation", "mx_symbol.symbol.functions"),
    ("mx_symbol.symbol.fluent", "mx_symbol.symbol.creation"),
    ("mx_symbol.symbol.fluent", "mx_symbol.symbol.functions"),
    # an executor that is reshaped is bound again
    ("mx_symbol.runtime.executor", "mx_symbol.runtime.reshape"),
    # a CachedOp may run as partitions, of which most are CachedOps of a smaller symbol
    ("mx_symbol.runtime.partitions", "mx_symbol.runtime.cached_op"),
    ("mx_symbol.runtime.partitions", "mx_symbol.symbol"),
    ("mx_symbol.runtime.cached_op", "mx_symbol.symbol"),
    # a plan draws itself
    ("mx_symbol.memory.plan", "mx_symbol.memory.drawing"),
}


class Imports:
    """What the files of a package import of one another."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = {self._name(path): path for path in sorted(root.rglob("*.py"))}
        self.loading: dict[str, set[str]] = {}
        self.late: dict[str, set[str]] = {}
        for name, path in self.files.items():
            found = set(self._of(path))
            self.loading[name] = {other for other, late in found if not late and other != name}
            self.late[name] = {other for other, late in found if late and other != name}

    def _name(self, path: Path) -> str:
        parts = path.relative_to(self.root.parent).with_suffix("").parts
        return ".".join(parts).removesuffix(".__init__")

    def _is_own(self, module: str | None) -> TypeGuard[str]:
        return module is not None and module.split(".")[0] == self.root.name

    def _of(self, path: Path) -> Iterator[tuple[str, bool]]:
        """Modules, and whether they are imported only when a function is called."""

        def visit(node: ast.AST, late: bool) -> Iterator[tuple[str, bool]]:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                    continue
                if isinstance(child, ast.ImportFrom) and not child.level and self._is_own(child.module):
                    folder = self.root.parent.joinpath(*child.module.split("."))
                    for alias in child.names:
                        inner = f"{child.module}.{alias.name}"
                        extension = (folder / f"{alias.name}.pyi").exists()
                        yield inner if inner in self.files or extension else child.module, late
                elif isinstance(child, ast.Import):
                    for alias in child.names:
                        yield alias.name, late
                elif not isinstance(child, ast.expr):
                    yield from visit(child, late or isinstance(child, ast.FunctionDef))

        return (
            (name, late) for name, late in visit(ast.parse(path.read_text()), False) if name in self.files
        )

    def reaches(self, start: str, end: str) -> bool:
        """Whether imports lead from one file to another."""
        seen: set[str] = set()
        stack = [start]
        while stack:
            at = stack.pop()
            if at == end:
                return True
            if at not in seen:
                seen.add(at)
                stack += self.loading[at] | self.late[at]
        return False

    def circular(self) -> set[tuple[str, str]]:
        """Late imports that are part of a circle."""
        return {
            (name, other) for name, all_ in self.late.items() for other in all_ if self.reaches(other, name)
        }


@cache
def imports(package: Path) -> Imports:
    """Those of a package, whose files are parsed once."""
    return Imports(package)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_files_load_each_other_in_one_direction(package: Path) -> None:
    list(TopologicalSorter(imports(package).loading).static_order())  # raises CycleError


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_late_imports_within_circles_are_those_with_a_reason(package: Path) -> None:
    assert imports(package).circular() == {pair for pair in LATE if pair[0].split(".")[0] == package.name}


def test_a_circle_is_found(tmp_path: Path) -> None:
    root = tmp_path / "one"
    root.mkdir()
    (root / "__init__.py").touch()
    (root / "a.py").write_text("from one import b\n")
    (root / "b.py").write_text("def f():\n    from one.a import g\n")
    found = Imports(root)
    assert found.loading["one.a"] == {"one.b"} and found.circular() == {("one.b", "one.a")}
    (root / "b.py").write_text("import one.a\n")
    with pytest.raises(CycleError):
        list(TopologicalSorter(Imports(root).loading).static_order())
