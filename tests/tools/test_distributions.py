# SPDX-License-Identifier: Apache-2.0
"""What the repository's distributions declare."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.distributions import base, closure, distributions, extras_of, lowest


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """`app` needs `lib` with its extra `fast`, which needs NumPy."""
    for name, project in {
        "packages/app": 'name = "app"\ndependencies = ["lib[fast]~=1.0", "click>=8.1"]',
        "packages/lib": 'name = "lib"\n[project.optional-dependencies]\nfast = ["numpy>=2.0"]\ntest = ["pytest"]',
        "plugins/addon": 'name = "addon"\ndependencies = ["lib"]',
    }.items():
        folder = tmp_path / name
        folder.mkdir(parents=True)
        (folder / "pyproject.toml").write_text(f"[project]\n{project}\n")
    return tmp_path


def test_dependencies_come_first(repository: Path) -> None:
    names = list(distributions(repository))
    assert sorted(names) == ["addon", "app", "lib"]
    assert names.index("lib") < min(names.index("app"), names.index("addon"))


def test_files_are_read_once(repository: Path) -> None:
    first = distributions(repository)
    (repository / "packages" / "lib" / "pyproject.toml").unlink()
    assert distributions(repository) is first


def test_a_closure_follows_extras(repository: Path) -> None:
    assert closure(["app"], root=repository) == (["lib", "app"], ["click>=8.1", "numpy>=2.0"])
    assert closure(["addon"], root=repository) == (["lib", "addon"], [])
    assert closure(["lib"], ("test",), root=repository) == (["lib"], ["pytest"])
    with pytest.raises(ValueError, match="no package libb; there are: .*lib"):
        closure(["libb"], root=repository)


def test_requirements_are_taken_apart() -> None:
    assert base("mx-train[plot]~=0.1.0") == "mx-train"
    assert base("numpy") == "numpy"
    assert extras_of("mx-train[plot, test]~=0.1.0") == ("plot", "test")
    assert extras_of("numpy>=2") == ()


@pytest.mark.parametrize(
    ("requirement", "pinned"),
    [
        ("numpy>=2.0", "numpy==2.0.*"),
        ("click>=8.1,<9", "click==8.1.*"),
        ("mx[plot]~=0.1.0", "mx[plot]==0.1.0"),
        ("tomli>=2; python_version < '3.11'", "tomli==2.0.*; python_version < '3.11'"),
        ("psutil", "psutil"),
    ],
)
def test_the_lowest_version_of_a_requirement(requirement: str, pinned: str) -> None:
    assert lowest(requirement) == pinned
