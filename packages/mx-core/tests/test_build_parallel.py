# SPDX-License-Identifier: Apache-2.0
"""What is compiled again, and what is not."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("setuptools")

from mx_core.build_parallel import _size, _slot

SETUP = """
from setuptools import setup
from mx_core.build import ParallelBuildExt, native_extension
sources = ["csrc/one.cc", "csrc/two.cc"]
setup(
    name="acme",
    ext_modules=[native_extension("_acme", sources, include_dirs=["csrc"], pybind11=False)],
    cmdclass={"build_ext": ParallelBuildExt},
)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An extension of two sources, one of which includes a header."""
    (tmp_path / "csrc").mkdir()
    (tmp_path / "setup.py").write_text(SETUP)
    (tmp_path / "csrc" / "two.h").write_text("inline int number() { return 2; }\n")
    (tmp_path / "csrc" / "one.cc").write_text("int one() { return 1; }\n")
    (tmp_path / "csrc" / "two.cc").write_text('#include "two.h"\nint two() { return number(); }\n')
    return tmp_path


def build(project: Path) -> dict[str, int]:
    """When each object was written, by its source's name."""
    command = [sys.executable, "setup.py", "-q", "build_ext", "--build-temp", "objects", "--build-lib", "out"]
    subprocess.run(command, cwd=project, check=True)
    return {path.stem: path.stat().st_mtime_ns for path in project.glob("objects/**/*.o")}


def later(path: Path) -> None:
    """Moves a file's time forward, past that of what was just built from it."""
    ahead = path.stat().st_mtime + 10
    os.utime(path, (ahead, ahead))


@pytest.mark.long
def test_only_what_changed_is_compiled_again(project: Path) -> None:
    first = build(project)
    assert set(first) == {"one", "two"}
    linked = [path.stat().st_mtime_ns for path in project.glob("out/*.so")]
    assert build(project) == first
    assert [path.stat().st_mtime_ns for path in project.glob("out/*.so")] == linked
    later(project / "csrc" / "one.cc")
    second = build(project)
    assert second["one"] > first["one"]
    assert second["two"] == first["two"]


def test_a_changed_header_compiles_who_includes_it(project: Path) -> None:
    first = build(project)
    later(project / "csrc" / "two.h")
    second = build(project)
    assert second["two"] > first["two"]
    assert second["one"] == first["one"]


def test_a_changed_command_compiles_everything(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build(project)
    monkeypatch.setenv("MX_BUILD_DEBUG", "1")
    second = build(project)
    assert all(second[name] > first[name] for name in first)


def test_a_compiler_waits_for_a_slot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = tmp_path / "slots"
    os.mkfifo(pipe)
    server = os.open(pipe, os.O_RDWR)
    monkeypatch.setenv("MAKEFLAGS", f"-j1 --jobserver-auth=fifo:{pipe}")
    entered = threading.Event()

    def compile_one() -> None:
        with _slot():
            entered.set()

    thread = threading.Thread(target=compile_one)
    thread.start()
    assert not entered.wait(0.05)
    os.write(server, b"+")
    thread.join(30)
    assert entered.is_set()
    assert os.read(server, 2) == b"+"  # given back
    os.close(server)


@pytest.mark.long
def test_grouped_sources_are_one_unit_unless_the_compiler_is_ccache(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def choose(name: str) -> None:
        script = project / "bin" / name
        script.parent.mkdir(exist_ok=True)
        script.write_text('#!/bin/sh\nexec g++ "$@"\n')
        script.chmod(0o755)
        for variable in ("CC", "CXX"):  # old setuptools compile C++ with CC, too
            monkeypatch.setenv(variable, str(script))

    (project / "setup.py").write_text(SETUP.replace("sources,", "sources, grouped=sources,"))
    choose("plain")  # where the tests run, g++ may be ccache
    first = build(project)
    assert set(first) == {"_acme_0"}
    later(project / "csrc" / "two.h")
    assert build(project)["_acme_0"] > first["_acme_0"]
    choose("ccache")
    assert {"one", "two"} <= set(build(project))


def test_flags_of_grouped_sources_are_theirs_alone_and_come_last(project: Path) -> None:
    flags = 'sources, grouped=sources[:1], grouped_flags=["-O1"],'
    (project / "setup.py").write_text(SETUP.replace("sources,", flags))
    build(project)
    commands = {path.name: path.read_text() for path in project.rglob("*.command")}
    assert len(commands) == 2
    quick = [command for command in commands.values() if "-O1" in command]
    assert len(quick) == 1
    assert quick[0].index("-O3") < quick[0].index("-O1")


def test_a_source_is_as_large_as_what_it_includes(project: Path) -> None:
    (project / "csrc" / "many.h").write_text('#include "many.h"\n#include <vector>\n' + "//" * 500)
    (project / "csrc" / "three.cc").write_text('#include "two.h"\n#include "many.h"\n')
    with (project / "csrc" / "one.cc").open("ab") as file:
        file.write(b'#include "\xe9.h"\n')  # a name that is no UTF-8
    sizes = [_size(str(project / "csrc" / name), [str(project)]) for name in ("one.cc", "two.cc", "three.cc")]
    parts = [path.stat().st_size for path in project.glob("csrc/t*") if path.name != "two.cc"]
    assert sizes == sorted(sizes)
    assert sizes[2] == sum(parts) + (project / "csrc" / "many.h").stat().st_size
