# SPDX-License-Identifier: Apache-2.0
"""Rules every package keeps: who may import whom, versions, sizes, heads of files."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = {f.parent.name: f.parent for f in ROOT.glob("p*s/*/pyproject.toml")}
MODULES = {name.replace("-", "_"): name for name in FOLDERS}

#: the arrows of the architecture: package -> own packages that its src may import
MAY_IMPORT: dict[str, set[str]] = {
    "mx-core": set(),
    "mx-engine": {"mx-core"},
    "mx-storage": {"mx-core"},
    "mx-operators": {"mx-core"},
    "mx-operators-cpu": {"mx-core", "mx-operators"},
    "mx-operators-cuda": {"mx-core", "mx-operators"},
    "mx-ndarray": {"mx-core"},
    "mx-symbol": {"mx-core", "mx-ndarray"},
    "mx-kvstore": {"mx-core", "mx-ndarray"},
    "mx-io": {"mx-core", "mx-ndarray"},
    "mx-train": {"mx-core", "mx-ndarray", "mx-symbol", "mx-io", "mx-kvstore"},
    "mx-gluon": {"mx-core", "mx-ndarray", "mx-symbol", "mx-io", "mx-kvstore", "mx-train"},
    "mx": set(FOLDERS) - {"mx-example-operators", "mx-mxnet", "mx-kvstore-mpi", "mx-kvstore-ray"},
    "mx-mxnet": {"mx", "mx-core"},
    "mx-kvstore-mpi": {"mx-core", "mx-engine", "mx-ndarray", "mx-kvstore", "mx-train"},
    "mx-kvstore-ray": {"mx-core", "mx-engine", "mx-ndarray", "mx-kvstore", "mx-train"},
    "mx-example-operators": {"mx-core", "mx-operators-cuda"},  # the latter for its CUDA kernels
}


def project(name: str) -> dict[str, object]:
    table: dict[str, object] = tomllib.loads((FOLDERS[name] / "pyproject.toml").read_text())["project"]
    return table


def sources(folder: Path, *patterns: str) -> list[Path]:
    found = [p for pattern in patterns for p in folder.rglob(pattern)]
    return [p for p in found if not {"build", "_build"} & set(p.parts) and "egg-info" not in str(p)]


@cache
def imports(path: Path) -> frozenset[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
    return frozenset(names)


@pytest.mark.parametrize("name", sorted(FOLDERS))
def test_imports_follow_the_arrows(name: str) -> None:
    own = MODULES.keys() - {name.replace("-", "_")}
    for path in sources(FOLDERS[name] / "src", "*.py"):
        for module in imports(path) & own:
            assert MODULES[module] in MAY_IMPORT[name], f"{path} imports {module}"


def test_the_readme_has_the_arrows() -> None:
    told = {}
    for left, right in re.findall(r"^(mx[\w, -]*?) +→ (.+)$", (ROOT / "README.md").read_text(), re.M):
        words = set(re.findall(r"[\w-]+", right.partition("; takes")[0]))  # what comes then are services
        found = (words | {f"mx-{word}" for word in words}) & FOLDERS.keys()
        told.update(dict.fromkeys(left.split(", "), found))
    assert told == {**MAY_IMPORT, "mx": set()}  # everything that is installed


def test_recordio_imports_core_only() -> None:
    for path in (FOLDERS["mx-io"] / "src" / "mx_io").glob("recordio*.py"):
        assert imports(path) & MODULES.keys() <= {"mx_core", "mx_io"}


@pytest.mark.parametrize("name", sorted(FOLDERS))
def test_declared_dependencies_match(name: str) -> None:
    version = project("mx-core")["version"]
    assert project(name)["version"] == version
    for requirement in project(name)["dependencies"]:  # type: ignore[attr-defined]
        match = re.match(r"(mx[\w-]*)(.*)", requirement)
        if match and match[1] in FOLDERS:
            assert match[2] == f"~={version}", requirement


@pytest.mark.parametrize("name", sorted(FOLDERS))
def test_extras_of_siblings_exist(name: str) -> None:
    optional: dict[str, list[str]] = project(name).get("optional-dependencies", {})  # type: ignore[assignment]
    for requirement in [*project(name)["dependencies"], *sum(optional.values(), [])]:  # type: ignore[misc]
        match = re.match(r"(mx[\w-]*)\[([^\]]*)\]", requirement)
        if match:
            assert match[2] in project(match[1])["optional-dependencies"], requirement  # type: ignore[operator]


@pytest.mark.parametrize("name", sorted(FOLDERS))
def test_every_import_is_a_declared_dependency(name: str) -> None:
    extras: dict[str, list[str]] = project(name).get("optional-dependencies", {})  # type: ignore[assignment]
    wanted = [r for extra, requirements in extras.items() if extra != "test" for r in requirements]
    wanted += project(name)["dependencies"]  # type: ignore[operator]
    declared = {re.split(r"[\s\[~<>=]", r)[0] for r in wanted}
    for path in sources(FOLDERS[name] / "src", "*.py"):
        for module in imports(path) & (MODULES.keys() - {name.replace("-", "_")}):
            assert MODULES[module] in declared or name == "mx", f"{path} imports {module}"


@pytest.mark.parametrize("name", sorted(FOLDERS))
def test_package_has_what_every_package_has(name: str) -> None:
    folder = FOLDERS[name]
    module = folder / "src" / ("mxnet" if name == "mx-mxnet" else name.replace("-", "_"))
    assert (module / "py.typed").exists()
    assert (folder / "README.md").read_text().startswith(f"# {name}\n")
    assert list((folder / "tests").rglob("test_*.py")), f"{name} has no tests"


def test_files_are_small_and_say_their_licence() -> None:
    for folder in (*FOLDERS.values(), ROOT / "tests"):
        for path in sources(folder, "*.py", "*.cc", "*.h", "*.hpp", "*.c"):
            text = path.read_text()
            limit = 600 if path.suffix == ".py" else 700
            assert text.count("\n") <= limit, f"{path} has {text.count(chr(10))} lines"
            assert not text or "SPDX-License-Identifier: Apache-2.0" in text[:300], path


def test_only_bindings_know_pybind11() -> None:
    for folder in FOLDERS.values():
        for path in sources(folder / "csrc", "*.cc", "*.hpp"):
            if "pybind11" in path.read_text():
                assert path.stem.startswith("bindings"), path


def test_headers_of_cpp_end_in_hpp_and_those_that_c_includes_in_h() -> None:
    interfaces = FOLDERS["mx-core"] / "src" / "mx_core" / "include"
    of_c = {path for folder in FOLDERS.values() for path in sources(folder, "*.h")}
    assert of_c == set(sources(interfaces, "*.h"))
    included = re.findall(r'#include "(.+)"', (FOLDERS["mx-core"] / "tests/cpp/headers_in_c99.c").read_text())
    assert {str(path.relative_to(interfaces)) for path in of_c} == set(included), "each compiles as C99"
