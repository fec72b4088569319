# SPDX-License-Identifier: Apache-2.0
"""`help()` of the native classes says what the stub says; pools have two spellings."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import mx_storage
from mx_core.errors import ArgumentError

STUB = ast.parse((Path(mx_storage.__file__).parent / "_core.pyi").read_text())
#: of the header of mx-core that a device's package uses, too; it gives them no texts
SHARED = {("StorageManager", name) for name in ("capsule", "holders", "release_all", "set_limit")}


def words(text: str | None) -> str:
    return " ".join((text or "").split())


@pytest.mark.parametrize("name", ["Block", "Random", "StorageManager"])
def test_methods_say_what_they_do(name: str) -> None:
    declared = next(node for node in STUB.body if isinstance(node, ast.ClassDef) and node.name == name)
    made = getattr(mx_storage, name)
    assert words(made.__doc__).startswith(words(ast.get_docstring(declared)))
    for function in declared.body:
        text = ast.get_docstring(function) if isinstance(function, ast.FunctionDef) else None
        if text is None or function.name == "__init__" or (name, function.name) in SHARED:
            continue
        assert words(text.split("\n\n")[0]) in words(getattr(made, function.name).__doc__), function.name


@pytest.mark.parametrize("pool", ["BestFit", "best_fit", "Pooled", "ROUND", "Pages", "Naive"])
def test_pools_have_the_names_of_the_variables_too(pool: str) -> None:
    assert mx_storage.StorageManager("any", pool=pool).alloc(10).nbytes == 10
    with pytest.raises(ArgumentError, match="expected pooled, best_fit, .* got 'Best-Fit'"):
        mx_storage.StorageManager("any", pool="Best-Fit")
