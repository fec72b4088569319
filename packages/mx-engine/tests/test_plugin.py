# SPDX-License-Identifier: Apache-2.0
"""The engines as services of a process."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from mx_core import plugins
from mx_engine import plugin

pytestmark = pytest.mark.timeout(60)

Python = Callable[..., "subprocess.CompletedProcess[str]"]


def test_the_engine_types_are_registered() -> None:
    registry = plugins.registry("engines")
    for name in ("ThreadedEnginePerDevice", "ThreadedEngine", "ThreadedEnginePooled", "NaiveEngine"):
        assert name in registry


@pytest.mark.parametrize(
    ("variable", "value", "name"),
    [
        ("MX_ENGINE_TYPE", "", "ThreadedEnginePerDevice"),
        ("MXNET_ENGINE_TYPE", "NaiveEngine", "NaiveEngine"),
        ("MX_ENGINE_TYPE", "ThreadedEnginePooled", "ThreadedEngine"),
    ],
)
def test_the_environment_chooses(python: Python, variable: str, value: str, name: str) -> None:
    done = python("from mx_core import services; print(services.engine().name)", **{variable: value})
    assert done.stdout == f"{name}\n", done.stderr


def test_loading_the_plugin_does_not_load_the_native_part(python: Python) -> None:
    done = python(
        """
        import sys
        import mx_engine, mx_engine.plugin
        print("mx_engine._core" in sys.modules, mx_engine.plugin.mx_diagnostics())
        """
    )
    assert done.stdout == "False {'engine': 'none in use yet'}\n", done.stderr


def test_diagnostics_name_the_engine_in_use(python: Python) -> None:
    done = python(
        """
        from mx_core import services
        from mx_engine import plugin
        engine = services.engine()
        print(plugin.mx_diagnostics())
        """,
        MXNET_CPU_WORKER_NTHREADS="3",
    )
    assert done.stdout == ("{'engine ThreadedEnginePerDevice': '3 workers, 0 operations pending'}\n"), (
        done.stderr
    )


def test_fork_hooks_without_an_engine_do_nothing() -> None:
    plugin.mx_fork("before")
    plugin.mx_fork("parent")
