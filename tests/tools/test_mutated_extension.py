# SPDX-License-Identifier: Apache-2.0
"""Mutants of C++ that its own tests let live are tried on the tests in Python."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools.mutation.extension import Extension, near_first
from tools.mutation.mutant import Mutant

SOURCE = """
#include <Python.h>
static long twice(long x) { return x + x; }
static PyObject* call(PyObject*, PyObject* x) { return PyLong_FromLong(twice(PyLong_AsLong(x))); }
static PyMethodDef methods[] = {{"twice", call, METH_O, nullptr}, {}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_core", nullptr, -1, methods, {}, {}, {}, {}};
PyMODINIT_FUNC PyInit__core() { return PyModule_Create(&module); }
"""
SETUP = """
from setuptools import setup
from mx_core.build import ParallelBuildExt, native_extension
setup(
    name="doubled", packages=["doubled"], package_dir={"": "src"}, cmdclass={"build_ext": ParallelBuildExt},
    ext_modules=[native_extension("doubled._core", ["csrc/core.cc"], pybind11=False)],
)
"""
TEST = "import doubled\ndef test_one():\n    assert doubled.twice(1) == 2\n"
MARKS = '[tool.pytest.ini_options]\nmarkers = ["slow", "gpu", "install"]\n'


@pytest.mark.long
def test_a_changed_extension_is_tested_in_place_of_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = tmp_path / "doubled"
    package, file = sources / "src" / "doubled", sources / "csrc" / "core.cc"
    for path, text in {
        tmp_path / "pyproject.toml": MARKS,
        sources / "setup.py": SETUP,
        file: SOURCE,
        package / "__init__.py": "from ._core import twice\n",
        tmp_path / "tests" / "test_doubled.py": TEST,
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # starts of pytest take less without
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p xdist")
    extension = Extension(sources, package, tmp_path / "work", sys.executable, tmp_path)
    tests = ["tests/test_doubled.py::test_one"]

    def outcome(after: str) -> tuple[str, str]:
        changed = SOURCE.replace("return x + x", f"return {after}")
        return extension.run(sys.executable, Mutant.of(file, SOURCE, changed, 3, "change"), tests, 60)

    assert outcome("2 * x") == ("survived", "1 tests passed")
    kind, detail = outcome("x - x")
    assert kind == "killed" and "test_one" in detail
    kind, detail = outcome("*(int*)nullptr")
    assert (kind, detail) == ("killed", "pytest ended with -11")
    assert outcome("y")[0] == "invalid"
    assert outcome("x << 1") == ("survived", "1 tests passed"), "what was built before is not left behind"
    assert file.read_text() == SOURCE and not list(package.glob("*.so"))


def test_tests_with_the_words_of_the_source_come_first() -> None:
    seconds = {
        "packages/p/tests/test_views.py::test_a": 0.1,
        "packages/p/tests/vision/test_boxes.py::test_a": 3.0,
        "packages/p/tests/vision/test_roi.py::test_a": 1.0,
        "packages/p/tests/vision/test_roi.py::test_boxes": 2.0,
    }
    near = ["vision/test_roi.py::test_boxes", "vision/test_boxes.py::test_a", "vision/test_roi.py::test_a"]
    order = [f"packages/p/tests/{name}" for name in (*near, "test_views.py::test_a")]
    assert near_first(Path("csrc/vision/boxes.cc"), seconds, 60) == order
    assert near_first(Path("csrc/vision/boxes.cc"), seconds, 5) == order[:2]
    assert near_first(Path("csrc/vision/boxes.cc"), seconds, 1) == order[:1], "one in any case"
