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

from mx_core.build_parallel import _includes_pybind11, _slot

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


def test_headers_of_the_project_are_searched_for_pybind11(tmp_path: Path) -> None:
    for name, text in {
        "csrc/direct.cc": "#include <pybind11/pybind11.h>\n",
        "csrc/through.cc": '#include "bindings.h"\n',
        "include/bindings.h": '#include "again.h"\n# include <pybind11/stl.h>\n',
        "include/again.h": '#include "bindings.h"\n',
        "csrc/plain.cc": "#include <vector>\n// pybind11/pybind11.h\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    include = str(tmp_path / "include")
    found = {
        n: _includes_pybind11(str(tmp_path / "csrc" / f"{n}.cc"), [include])
        for n in ("direct", "through", "plain")
    }
    assert found == {"direct": True, "through": True, "plain": False}
