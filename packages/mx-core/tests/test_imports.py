# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys
from pathlib import Path

import pytest

from mx_core.imports import import_by_name

#: two threads import a package, whose own code imports its part, and that part
PROGRAM = """
import sys, threading
from mx_core.imports import import_by_name
sys.path.insert(0, sys.argv[1])
sys.setswitchinterval(1e-6)
failed = []

def run(name):
    try:
        import_by_name(name)
    except BaseException as error:
        failed.append(error)

threads = [threading.Thread(target=run, args=(name,)) for name in ("outer", "outer.inner.part")]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not failed, failed
"""


def test_threads_that_import_a_package_and_its_part_both_get_them(tmp_path):
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "outer" / "__init__.py").write_text(
        "import time\ntime.sleep(0.4)\nfrom outer.inner import VALUE\n"
    )
    (inner / "__init__.py").write_text(
        "import outer, time\ntime.sleep(0.2)\nfrom outer.inner.part import VALUE\n"
    )
    (inner / "part.py").write_text("VALUE = 1\n")
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_what_a_package_raises_is_raised(tmp_path, monkeypatch):
    (tmp_path / "broken_outer").mkdir()
    (tmp_path / "broken_outer" / "__init__.py").write_text("raise ValueError('on purpose')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ValueError, match="on purpose"):
        import_by_name("broken_outer.part")


def package(folder: Path, name: str) -> None:
    """A package whose module `heavy` notes each time that it runs."""
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(
        "from mx_core.imports import lazy\nRUNS = []\n"
        f"__getattr__, __dir__, __all__ = lazy(__name__, {{'{name}.heavy': ['first', 'second']}}, ['part'])\n"
    )
    (folder / name / "heavy.py").write_text(f"import {name}\n{name}.RUNS.append(1)\nfirst, second = 1, 2\n")
    (folder / name / "part.py").write_text("")


def test_lazy_names_are_imported_once_and_when_they_are_first_used(tmp_path, monkeypatch):
    package(tmp_path, "lazy_once")
    monkeypatch.syspath_prepend(str(tmp_path))
    made = import_by_name("lazy_once")
    assert made.__all__ == ["first", "part", "second"] and {"first", "part", "RUNS"} <= set(dir(made))
    assert made.RUNS == [] and "lazy_once.part" not in sys.modules
    assert (made.first, made.second, made.first) == (1, 2, 1) and made.RUNS == [1]
    assert vars(made)["first"] == 1, "found without __getattr__ from now on"
    assert made.part is sys.modules["lazy_once.part"]


def test_a_name_that_is_not_there_is_an_attribute_error(tmp_path, monkeypatch):
    package(tmp_path, "lazy_missing")
    monkeypatch.syspath_prepend(str(tmp_path))
    made = import_by_name("lazy_missing")
    with pytest.raises(AttributeError, match="module 'lazy_missing' has no attribute 'third'"):
        made.third
    with pytest.raises(ImportError, match="third"):
        exec("from lazy_missing import third")
