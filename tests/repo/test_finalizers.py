# SPDX-License-Identifier: Apache-2.0
"""Python swallows a Ctrl-C that lands in a finalizer, and the program runs on; ours are native code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]

#: finalizers in Python, each with why no loop of ours runs it
ALLOWED = {
    "mx_io/recordio.py: MXRecordIO.__del__": "of a file that its user has forgotten to close, as in MXNet",
}

#: containers of `weakref` that remove a value in a callback in Python; mx_core.weak has others
WEAK = ("WeakSet", "WeakKeyDictionary", "WeakValueDictionary")
#: what a source with a finalizer has somewhere; one without is not parsed
SIGNS = re.compile(r"__del__|Weak|finalize|\bref\b|\bproxy\b")


def finalizers(source: str) -> Iterator[str]:
    """What runs when an object ends: methods, and callbacks of weak references in Python."""
    for node in ast.walk(ast.parse(source if SIGNS.search(source) else "")):
        if isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, ast.FunctionDef) and part.name == "__del__":
                    yield f"{node.name}.__del__"
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")[2]
            native = len(node.args) > 1 and ast.unparse(node.args[1]).endswith("queue.put")
            if (
                name in WEAK
                or name == "finalize"
                or (name in ("ref", "proxy", "WeakMethod") and len(node.args) > 1 and not native)
            ):
                yield ast.unparse(node)


def test_they_are_native() -> None:
    found = {
        f"{path.relative_to(src)}: {finalizer}"
        for src in [*ROOT.glob("packages/*/src"), *ROOT.glob("plugins/*/src")]
        for path in src.rglob("*.py")
        for finalizer in finalizers(path.read_text(encoding="utf-8"))
    }
    assert found == set(ALLOWED)


def test_they_are_found() -> None:
    source = "class A:\n    def __del__(self): ...\nweakref.finalize(a, b)\nref(a, told)\nref(a, queue.put)\nref(a)"
    source += "\nWeakSet()"
    expected = ["A.__del__", "weakref.finalize(a, b)", "ref(a, told)", "WeakSet()"]
    assert list(finalizers(source)) == expected
