# SPDX-License-Identifier: Apache-2.0
"""`help()` of the native classes says what the stub says."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import mx_engine._core

STUB = ast.parse((Path(mx_engine.__file__).parent / "_core.pyi").read_text())


def words(text: str | None) -> str:
    return " ".join((text or "").split())


@pytest.mark.parametrize("name", ["Engine"])
def test_methods_say_what_they_do(name: str) -> None:
    declared = next(node for node in STUB.body if isinstance(node, ast.ClassDef) and node.name == name)
    made = getattr(mx_engine._core, name)
    assert words(made.__doc__).startswith(words(ast.get_docstring(declared)))
    for function in declared.body:
        text = ast.get_docstring(function) if isinstance(function, ast.FunctionDef) else None
        if text is None or function.name == "__init__":
            continue
        assert words(text.split("\n\n")[0]) in words(getattr(made, function.name).__doc__), function.name
