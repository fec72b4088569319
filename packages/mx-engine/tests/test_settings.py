# SPDX-License-Identifier: Apache-2.0
"""Environment variables."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable

import pytest

from mx_core.errors import ArgumentError
from mx_engine import engines
from mx_engine.settings import default_workers, integer, seconds


@pytest.mark.parametrize(("text", "value"), [("", 7), ("  ", 7), ("0", 0), (" 12 ", 12)])
def test_integer(monkeypatch: pytest.MonkeyPatch, text: str, value: int) -> None:
    monkeypatch.setenv("MX_TEST_SETTING", text)
    assert integer("MX_TEST_SETTING", 7) == value


@pytest.mark.parametrize("text", ["x", "1.5", "-1", "1e3", "2147483648", "9" * 30, "9" * 5000])
def test_what_is_no_count_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("MX_TEST_SETTING", text)
    with pytest.raises(ArgumentError, match=r"\[MX_TEST_SETTING\] expected a whole number"):
        integer("MX_TEST_SETTING", 7)


def test_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MX_TEST_SETTING", "0.25")
    assert seconds("MX_TEST_SETTING", 1.0) == 0.25
    monkeypatch.setenv("MX_TEST_SETTING", "soon")
    with pytest.raises(ArgumentError, match="number of seconds, got 'soon'"):
        seconds("MX_TEST_SETTING", 1.0)


def test_default_workers_follow_the_cores() -> None:
    assert default_workers() == min(4, len(os.sched_getaffinity(0)))


@pytest.mark.parametrize("text", ["x", "-4"])
def test_a_wrong_number_of_threads_gives_no_slower_engine(
    python: Callable[..., subprocess.CompletedProcess[str]], text: str
) -> None:
    done = python(
        "from mx_core import services; services.engine()", MXNET_CPU_WORKER_NTHREADS=text, MX_ENGINE_TYPE=""
    )
    message = rf"SettingError: \[MXNET_CPU_WORKER_NTHREADS\] expected a whole number.*{text}"
    assert done.returncode == 1 and re.search(message, done.stderr), done.stderr


def test_defaults_of_threads_are_those_of_the_documentation(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, object] = {}

    class Taken(Exception):
        pass

    def engine(name: str, **settings: object) -> None:
        given.update(settings)
        raise Taken

    monkeypatch.setattr(engines, "Engine", engine)
    for name in [n for n in os.environ if n.startswith(("MX_", "MXNET_"))]:
        monkeypatch.delenv(name)
    with pytest.raises(Taken):
        engines.create("ThreadedEnginePerDevice")
    workers = default_workers()
    counts = {"workers": workers, "priority_workers": 4, "copy_workers": 2, "python_workers": workers}
    assert given == {"per_device": True, "debug": False, "sticky": False} | counts
