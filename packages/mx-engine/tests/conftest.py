# SPDX-License-Identifier: Apache-2.0
"""Engines and fresh interpreters for the tests."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator

import pytest

import mx_engine


def pytest_configure() -> None:
    """Lets Ctrl-C through to the tests' processes when a shell runs the tests in the background, without it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(params=["ThreadedEnginePerDevice", "ThreadedEngine"])
def engine(request: pytest.FixtureRequest) -> Iterator[mx_engine.Engine]:
    """A threaded engine with two workers; what the test leaves behind must finish."""
    made = mx_engine.create(request.param, workers=2)
    yield made
    assert made.drain(10)


@pytest.fixture
def naive() -> mx_engine.Engine:
    return mx_engine.create("NaiveEngine")


@pytest.fixture
def openmp() -> ctypes.CDLL:
    """The OpenMP runtime that the engine finds in the process."""
    try:
        return ctypes.CDLL("libgomp.so.1")
    except OSError:
        pytest.skip("no OpenMP runtime")


@pytest.fixture
def python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a program in a fresh interpreter: `python(code, VARIABLE=value) -> completed process`."""

    def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run
