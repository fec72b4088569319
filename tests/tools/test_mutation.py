# SPDX-License-Identifier: Apache-2.0
"""Mutants are drawn by a seed, and distinguished by the tests that cover them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import pytest

from tools.distributions import ROOT, distributions
from tools.mutation import native, sample
from tools.mutation.covering import Covering, cover
from tools.mutation.mutant import Mutant, judged
from tools.mutation.trial import Copy

SOURCE = '''
"""A module."""
from __future__ import annotations
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import nothing
def area(width: int | None, height: int = 3) -> int | None:
    return width * height
def unused(x):
    return x + 1
'''


def drawn(tmp_path: Path, seed: str, count: int = 30) -> list[Mutant]:
    file = tmp_path / "sample.py"
    file.write_text(SOURCE)
    return list(islice(sample.mutants([file], seed), count))


def test_a_seed_gives_the_same_mutants_again(tmp_path: Path) -> None:
    keys = [mutant.key for mutant in drawn(tmp_path, "1")]
    assert keys == [mutant.key for mutant in drawn(tmp_path, "1")] and len(keys) == len(set(keys))
    assert keys != [mutant.key for mutant in drawn(tmp_path, "2")]


def test_what_has_no_effect_is_left_out(tmp_path: Path) -> None:
    found = drawn(tmp_path, "1", 1000)
    assert {mutant.line for mutant in found} == {7, 8, 10}
    assert "sample.py: return width * height -> return width // height" in {mutant.key for mutant in found}
    assert all("|" in mutant.after for mutant in found if mutant.line == 7), "an annotation was changed"


def test_tests_that_cover_a_line_are_chosen_quick_ones_first(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("def f(x=1):\n    a(x)\n    b(x)\n    c(x)\n")
    covering = Covering(
        {"slow": 9.0, "quick": 0.1, "other": 0.2},
        {file: {1: ["slow"], 2: ["slow", "quick"], 3: [], 4: ["slow"]}},
    )
    assert covering.choose(file, 2, 60) == ["quick", "slow"]
    assert covering.choose(file, 2, 5) == ["quick"]
    assert covering.choose(file, 4, 5) == ["slow"], "one test is chosen in any case"
    for line in (1, 3):  # who imported it first, nobody
        assert covering.choose(file, line, 60) == ["quick", "slow", "other"], "those of the file come first"


@pytest.mark.long
def test_a_copy_is_tested_in_place_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package, tests = tmp_path / "site" / "sample_package", tmp_path / "tests"
    for folder in (package, tests):
        folder.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\nmarkers = ["slow", "gpu", "install"]\n'
    )
    (package / "__init__.py").write_text(SOURCE)
    (tests / "test_area.py").write_text(
        "import pytest, sample_package\n"
        "@pytest.mark.parametrize('width', [1, 2])\n"
        "def test_area(width):\n    assert sample_package.area(width, 2) == 2 * width\n"
        "def test_fails():\n    assert False\n"
        "def test_first():\n    assert not hasattr(pytest, 'second')\n"
        "def test_second():\n    pytest.second = 1\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    # nine starts of pytest, which take less without other plug-ins
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p xdist")
    covering = cover(sys.executable, package, tests, tmp_path / "work", tmp_path)
    names = [f"tests/test_area.py::test_area[{width}]" for width in (1, 2)]
    first, second = "tests/test_area.py::test_first", "tests/test_area.py::test_second"
    assert sorted(covering.seconds) == [*names, first, second]
    file = package / "__init__.py"
    assert sorted(covering.choose(file, 8, 60)) == names
    copy = Copy(package, tmp_path / "copy", tmp_path)

    def outcome(before: str, after: str, tests: Sequence[str] = names) -> tuple[str, str]:
        mutant = Mutant.of(file, SOURCE, SOURCE.replace(before, after), 8, "change")
        return copy.run(sys.executable, mutant, tests, 60)

    kind, detail = outcome("width * height", "width + height")
    assert kind == "killed" and "test_area[1]" in detail
    assert outcome("x + 1", "x - 1") == ("survived", "2 tests passed")
    unfit = outcome("x + 1", "x - 1", [second, first, *names])
    assert unfit == ("survived", "3 tests passed"), "one fails without the change, too"
    kind, detail = outcome("width * height", "height * width", [first])
    assert kind == "survived" and detail.startswith("every test of it fails")
    assert outcome("width * height", "height * width") == ("survived", "2 tests passed")
    endless = Mutant.of(file, SOURCE, SOURCE.replace("return width", "while 1: width"), 8, "change")
    assert copy.run(sys.executable, endless, names, 2) == ("killed", "no end within 2 s")
    assert file.read_text() == SOURCE


def test_mutants_of_cpp_change_code_only(tmp_path: Path) -> None:
    file = tmp_path / "a.cc"
    file.write_text(
        "#include <a.h>  // a < b\n"
        'const char* text = "a == b";\n'
        "bool f(int a, int b) { return a < b && a != 3; }\n"
        "void g() { std::lock_guard<M> lock(m); condition.notify_one(); }\n"
    )
    plain = {mutant.after for mutant in native.mutants([file], "1", False)}
    assert plain == {
        "bool f(int a, int b) { return a <= b && a != 3; }",
        "bool f(int a, int b) { return a < b || a != 3; }",
        "bool f(int a, int b) { return a < b && a == 3; }",
        "void g() { std::lock_guard<M> lock(m); ; }",
    }
    assert {mutant.after for mutant in native.mutants([file], "1", True)} == {
        "void g() { ; condition.notify_one(); }"
    }


@pytest.mark.long
def test_every_kind_of_change_finds_a_place_in_the_engine() -> None:
    files = native.sources(distributions()["mx-engine"]) + native.sources(distributions()["mx-core"])
    found = {mutant.operator for threads in (False, True) for mutant in native.mutants(files, "1", threads)}
    assert {change.name for change in native.CHANGES} - found <= {"drop_fence"}


def test_blank_lines_do_not_name_a_mutant() -> None:
    mutant = Mutant.of(Path("a.py"), "a\n\n\n@hook\nb\n", "a\nb\n", 4, "drop")
    assert mutant.key == "a.py: @hook -> "


def test_what_is_judged_equal_still_stands_in_the_sources() -> None:
    lines: dict[str, set[str]] = {}
    for group in ("packages", "plugins"):
        for path in ROOT.glob(f"{group}/*/*/**/*"):
            if path.suffix in (".py", ".cc", ".h", ".hpp"):
                lines.setdefault(path.name, set()).update(map(str.strip, path.read_text().splitlines()))
    for key, why in judged().items():
        file, _, change = key.partition(": ")
        # A line may have arrows of its own, as signatures have.
        found = any(change.startswith(f"{line} -> ") for line in lines.get(file, ()))
        assert why and found, f"no such line any more: {key}"
