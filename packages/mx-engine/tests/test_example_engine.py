# SPDX-License-Identifier: Apache-2.0
"""A stranger's engine passes the contract, and the process's arrays run on it."""

from __future__ import annotations

import os
import runpy
import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from mx_core.testing import EngineContract

pytestmark = pytest.mark.timeout(120)

EXAMPLE = Path(__file__).parent / "example"


ENGINE = runpy.run_path(str(EXAMPLE / "mx_tiny_engine.py"))["TinyEngine"]


class TestTinyEngine(EngineContract):
    def make_engine(self) -> object:
        return ENGINE()

    def test_what_an_accelerator_does_is_done_when_its_token_is_reached(self) -> None:
        pytest.skip("it knows no accelerators")


def test_arrays_run_on_it(python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    pytest.importorskip("mx_ndarray")
    path = os.pathsep.join(filter(None, [str(EXAMPLE), os.environ.get("PYTHONPATH")]))
    done = python(
        textwrap.dedent("""
        from mx_core import services
        from mx_ndarray import nd, autograd
        print(services.engine().name)
        x = nd.array([1.0, 2.0, 3.0])
        x.attach_grad()
        with autograd.record():
            y = (x * x).sum()
        y.backward()
        print(y.asscalar(), x.grad.asnumpy())
        """),
        PYTHONPATH=path,
        MX_ENGINE_TYPE="TinyEngine",
    )
    assert done.stdout == "TinyEngine\n14.0 [2. 4. 6.]\n", done.stderr
    assert done.returncode == 0, done.stderr


def test_its_table_measures_like_any_other() -> None:
    from mx_engine import _core

    engine = ENGINE()
    assert 0 < _core.run_empty(engine.capsule, "random graph", 100) < 10
    assert 0 < _core.hand_over(engine.capsule, 10) < 10
