# SPDX-License-Identifier: Apache-2.0
"""Programs in fresh interpreters, and how many of them a run tries."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

import pytest

#: every engine with one, two and four workers, as environment variables
ENGINES = [
    {"MXNET_ENGINE_TYPE": engine, "MXNET_CPU_WORKER_NTHREADS": workers}
    for engine in ("NaiveEngine", "ThreadedEngine", "ThreadedEnginePerDevice")
    for workers in ("1", "2", "4")
]


def python(*arguments: object, timeout: float = 120, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs Python with arguments and environment variables; a run that does not end is an error."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        env=os.environ | environment, capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip


def run(
    program: str, *arguments: object, timeout: float = 120, **environment: str
) -> subprocess.CompletedProcess[str]:
    """The same of a program."""
    return python("-c", program, *arguments, timeout=timeout, **environment)


def mx(*arguments: object, timeout: float = 200, **environment: str) -> subprocess.CompletedProcess[str]:
    """The same of the command `mx`."""
    return python("-m", "mx_core.cli", *arguments, timeout=timeout, **environment)


def sampled(cases: Iterable[Any], step: int) -> list[Any]:
    """Cases as parameters: every `step`-th in the default run, all in the nightly one."""
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)), marks=[] if i % step == 0 else [pytest.mark.slow]
        )
        for i, case in enumerate(cases)
    ]


def counted(few: int, many: int, timeout: float = 1800) -> list[Any]:
    """A number for the default run, and a larger one for the nightly run."""
    return [few, pytest.param(many, marks=[pytest.mark.slow, pytest.mark.timeout(timeout)])]
