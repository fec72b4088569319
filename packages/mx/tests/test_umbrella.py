# SPDX-License-Identifier: Apache-2.0
import ast
import subprocess
import sys
from pathlib import Path

import pytest

import mx


@pytest.mark.parametrize("name", sorted(mx._PLACES))
def test_every_name_resolves(name: str) -> None:
    assert getattr(mx, name) is not None
    assert name in dir(mx)


def test_import_is_light() -> None:
    code = "import sys, mx; print(sorted(m for m in sys.modules if m in ('numpy', 'mx_ndarray', 'mx_core._native')))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_unknown_name_has_a_hint() -> None:
    with pytest.raises(AttributeError, match="did you mean mx.optimizer"):
        mx.optimiser


@pytest.mark.parametrize("name", ["gluon", "np", "npx", "rtc"])
def test_what_is_not_implemented_names_the_guide(name: str) -> None:
    with pytest.raises(AttributeError, match=f"mx.{name} is not implemented; see the guide 'Move a script"):
        getattr(mx, name)
    assert not mx._ABSENT & set(mx._PLACES)


def test_missing_part_names_its_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(vars(mx), "kvstore", raising=False)
    monkeypatch.setitem(sys.modules, "mx_kvstore", None)
    with pytest.raises(AttributeError, match="install mx-kvstore"):
        mx.kvstore


def test_readers_of_types_see_the_same_names() -> None:
    module = ast.parse(Path(mx.__file__).read_text())
    block = next(s for s in module.body if isinstance(s, ast.If) and ast.unparse(s.test) == "TYPE_CHECKING")
    names = {
        alias.asname for s in block.body if isinstance(s, (ast.Import, ast.ImportFrom)) for alias in s.names
    }
    names |= {ast.unparse(s.targets[0]) for s in block.body if isinstance(s, ast.Assign)}
    assert {name for name in names if name and not name.startswith("_")} == set(mx._PLACES)
