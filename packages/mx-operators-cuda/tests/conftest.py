# SPDX-License-Identifier: Apache-2.0
"""Fixtures: the emulator, NVRTC, and a GPU where there is one."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import cuda_emulator as emulation

sys.path.pop(0)


@pytest.fixture(scope="session")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> emulation.Emulator:
    """Generated kernels on the processor."""
    if emulation.COMPILER is None:
        pytest.skip("there is no g++, which builds the kernels for the processor")
    return emulation.Emulator(tmp_path_factory.mktemp("kernels"))


@pytest.fixture(scope="session")
def nvrtc() -> Any:
    """The compiler module."""
    from mx_core.errors import MXNetError
    from mx_operators_cuda import nvrtc

    try:
        nvrtc.library()
    except MXNetError as error:
        if sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64"):
            pytest.fail(f"pip install 'mx-operators-cuda[test]': {error}")
        pytest.skip(f"the test extra has no NVRTC for this platform: {error}")
    return nvrtc


@pytest.fixture
def gpu() -> Iterator[Any]:
    """CuPy, on a machine with a GPU."""
    from mx_operators_cuda import device

    problem = device.missing()
    if problem:
        pytest.skip(problem)
    import cupy

    yield cupy
