# SPDX-License-Identifier: Apache-2.0
"""What the guide of stores, iterators, codecs and engines shows is a plug-in that passes its checks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from testkit import fresh
from testkit.bad_plugins import install

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "write_a_store_iterator_or_codec.md"


@pytest.fixture
def shown(tmp_path: Path) -> Path:
    install(tmp_path, "\n".join(re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.S | re.M)))
    return tmp_path


def test_they_pass(shown: Path) -> None:
    done = fresh.mx("plugins", "check", "aaa", timeout=300, PYTHONPATH=str(shown))
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    for subject in (
        "engines 'CountingEngine'",
        "kvstores 'summing'",
        "data iters 'Squares'",
        "image codecs 'plain'",
    ):
        assert any(line.startswith(f"ok      {subject}") for line in lines), lines
    assert not any(line.startswith("not checked") for line in lines), lines


def test_the_engine_runs_arrays_when_it_is_chosen(shown: Path) -> None:
    program = "import mx; print((mx.nd.ones(2) + 1).asnumpy().tolist())\nfrom mx_core import services\nprint(services.engine().name)"
    done = fresh.run(program, PYTHONPATH=str(shown), MX_ENGINE_TYPE="CountingEngine")
    assert done.returncode == 0, done.stderr
    printed = done.stdout.splitlines()
    assert printed[-2:] == ["[2.0, 2.0]", "CountingEngine"]


BARE = """
class Bare:
    name, capsule = "Bare", None

def mx_register_engines(registry):
    registry.add("Bare", Bare, priority=-1)
"""


def test_an_engine_without_its_methods_is_one_failure(tmp_path: Path) -> None:
    install(tmp_path, BARE)
    done = fresh.mx("plugins", "check", "aaa", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    (failed,) = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    assert "can be made" in failed
    assert "Bare lacks workers, is_naive, push, new_variable" in done.stdout and "stop" in done.stdout
