# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys

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
