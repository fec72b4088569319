# SPDX-License-Identifier: Apache-2.0
"""Every public class says in a line what may be done to it from several threads."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGES = Path(__file__).parents[2] / "packages"
NAMES = ("mx-engine", "mx-storage", "mx-ndarray", "mx-symbol", "mx-io", "mx-train", "mx-kvstore", "mx-gluon")
#: what never changes, or is no object that threads could share
IMMUTABLE = {"NamedTuple", "TypedDict", "Protocol", "Params", "Operator", "Elementwise"}


def sources(package: str) -> Iterator[Path]:
    """Python files of a package, and the stubs that document its extension."""
    yield from (PACKAGES / package / "src").rglob("*.py")
    yield from (PACKAGES / package / "src").rglob("_core.pyi")


def name_of(node: ast.expr) -> str:
    """`B` of the base class `a.B[c]`."""
    node = node.value if isinstance(node, ast.Subscript) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def is_immutable(node: ast.ClassDef, bases: set[str]) -> bool:
    """A tuple, a frozen dataclass, an exception, a declaration."""
    frozen = any("frozen=True" in ast.unparse(mark) for mark in node.decorator_list)
    return frozen or bool(bases & IMMUTABLE) or any(base.endswith("Error") for base in bases)


def missing(package: str) -> list[str]:
    """Public classes that say nothing, and whose base classes in the package say nothing either."""
    classes = {
        node.name: (path, node)
        for path in sources(package)
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
    }

    def says(name: str) -> bool:
        if name not in classes:
            return False
        node = classes[name][1]
        bases = {name_of(base) for base in node.bases}
        stated = "Threads:" in (ast.get_docstring(node) or "")
        return stated or is_immutable(node, bases) or any(says(base) for base in bases - {name})

    return sorted(
        f"{path.relative_to(PACKAGES)}: {name}"
        for name, (path, _) in classes.items()
        if not name.startswith("_") and not says(name)
    )


@pytest.mark.parametrize("package", NAMES)
def test_public_classes_say_what_threads_may_do(package: str) -> None:
    assert not missing(package)
