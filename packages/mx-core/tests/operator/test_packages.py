# SPDX-License-Identifier: Apache-2.0
"""operators_in finds what a package declares."""

from __future__ import annotations

from pathlib import Path

import pytest

from mx_core.errors import PluginError
from mx_core.operator import operators_in

FILES = {
    "__init__.py": "",
    "base.py": """
from mx_core.operator import Operator

class Base(Operator):
    differentiable = False
""",
    "sub/__init__.py": "",
    "sub/one.py": """
from found_by_test.base import Base
from mx_core.operator import SimpleOp
from mx_core.testing.sample_operators import Fails  # another package's

class One(Base):
    name = "test_one"

FAMILY = tuple(type(f"Made{i}", (Base,), {"name": f"test_made{i}", "__module__": __name__}) for i in range(2))
""",
    "two.py": "from found_by_test.sub.one import One\n",
}


def test_classes_with_a_name_and_members_of_tuples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in FILES.items():
        path = tmp_path / "found_by_test" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    assert [op.name for op in operators_in("found_by_test")] == ["test_one", "test_made0", "test_made1"]


def test_modules_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "named_by_test"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "kernels.py").write_text("import not_installed\n")
    for name in ("one", "two"):
        text = f"""
from mx_core.operator import Operator

class Declared(Operator):
    name = "test_{name}"
    differentiable = False
"""
        (package / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    found = operators_in("named_by_test.two", "named_by_test.one")
    assert [op.name for op in found] == ["test_two", "test_one"]


NAMELESS = """
from mx_core.operator import SimpleOp

class Base(SimpleOp):
    def function(self, p, data):
        return data + data

class Swish(SimpleOp):
    def function(self, p, data):
        return data * data

class _Hidden(SimpleOp):
    def function(self, p, data):
        return data
"""


def test_a_class_whose_name_was_forgotten_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "nameless_by_test"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "aaa.py").write_text(NAMELESS)
    later = "from nameless_by_test.aaa import Base\nclass Named(Base):\n    name = 'test_named'\n"
    (package / "bbb.py").write_text(later)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        PluginError, match=r"nameless_by_test\.aaa\.Swish has no name, got None; .* name = 'swish'"
    ):
        list(operators_in("nameless_by_test"))
