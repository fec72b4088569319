# SPDX-License-Identifier: Apache-2.0
"""When a wheel is built again, and what of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tools.distributions import Distribution
from tools.wheels import fingerprint, jobserver, sources, stage


@pytest.fixture
def distribution(tmp_path: Path) -> Distribution:
    """A native distribution with one file of each kind."""
    folder = tmp_path / "part"
    for name in (
        "pyproject.toml", "setup.py", "src/part/__init__.py", "csrc/part.cc", "tests/test_part.py",
        "benchmarks/bench_part.py", "examples/use.py", "build/lib/part.py", "src/part/_core.so",
        "src/part.egg-info/PKG-INFO", "src/part/__pycache__/part.pyc",
    ):  # fmt: skip
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return Distribution("part", folder, (), {})


@pytest.fixture
def core(tmp_path: Path) -> Path:
    """mx-core's sources."""
    (tmp_path / "core" / "include").mkdir(parents=True)
    (tmp_path / "core" / "include" / "abi.h").write_text("")
    return tmp_path / "core"


def test_only_what_is_shipped_is_a_source(distribution: Distribution) -> None:
    assert sorted(sources(distribution)) == [
        "csrc/part.cc",
        "pyproject.toml",
        "setup.py",
        "src/part/__init__.py",
    ]


@pytest.mark.parametrize("name", ["tests/test_part.py", "benchmarks/bench_part.py", "examples/use.py"])
def test_tests_and_benchmarks_do_not_change_a_fingerprint(
    distribution: Distribution, core: Path, name: str
) -> None:
    before = fingerprint(distribution, "cpython-311", core)
    (distribution.folder / name).write_text("changed")
    (distribution.folder / name).with_name("new.py").write_text("new")
    assert fingerprint(distribution, "cpython-311", core) == before


@pytest.mark.parametrize(
    "name", ["csrc/part.cc", "src/part/__init__.py", "pyproject.toml", "src/part/new.py"]
)
def test_sources_change_a_fingerprint(distribution: Distribution, core: Path, name: str) -> None:
    before = fingerprint(distribution, "cpython-311", core)
    (distribution.folder / name).write_text("changed")
    assert fingerprint(distribution, "cpython-311", core) != before


def test_the_interpreter_and_the_headers_of_core_change_a_fingerprint(
    distribution: Distribution, core: Path
) -> None:
    before = fingerprint(distribution, "cpython-311", core)
    assert fingerprint(distribution, "cpython-312", core) != before
    (core / "include" / "abi.h").write_text("changed")
    assert fingerprint(distribution, "cpython-311", core) != before


def test_staging_keeps_the_times_of_what_did_not_change(distribution: Distribution, tmp_path: Path) -> None:
    target = tmp_path / "staged"
    stage(distribution, target)
    kept, changed = target / "setup.py", target / "csrc" / "part.cc"
    for path in (kept, changed):
        os.utime(path, (1, 1))
    os.utime(distribution.folder / "setup.py", (2, 2))  # touched, same content
    (distribution.folder / "csrc" / "part.cc").write_text("changed")
    stage(distribution, target)
    assert kept.stat().st_mtime == 1
    assert changed.stat().st_mtime > 1
    assert changed.read_text() == "changed"


def test_staging_follows_removals_and_keeps_objects(distribution: Distribution, tmp_path: Path) -> None:
    target = tmp_path / "staged"
    stage(distribution, target)
    for name in ("build/temp/part.o", "build/lib/part.py", "src/part/lib/made.so"):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).touch()
    (distribution.folder / "csrc" / "part.cc").unlink()
    stage(distribution, target)
    assert not (target / "csrc" / "part.cc").exists()
    assert (target / "build" / "temp" / "part.o").exists()
    assert (target / "src" / "part" / "lib" / "made.so").exists()
    assert not (target / "build" / "lib").exists()  # what a wheel would take along


def test_a_jobserver_hands_out_its_slots() -> None:
    with jobserver(3) as flags:
        pipe = flags.partition("fifo:")[2]
        descriptor = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
        assert len(os.read(descriptor, 10)) == 3
        with pytest.raises(BlockingIOError):
            os.read(descriptor, 1)
        os.close(descriptor)
    assert not os.path.exists(pipe)
