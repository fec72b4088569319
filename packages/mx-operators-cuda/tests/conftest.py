# SPDX-License-Identifier: Apache-2.0
"""Fixtures: the emulator, NVRTC, a fake machine with GPUs, and a GPU where there is one."""

from __future__ import annotations

import platform
import sys
from typing import Any

import pytest

from testkit import cuda_emulator as emulation
from testkit import fake_machine


def _needs_compiler() -> None:
    if emulation.COMPILER is None:
        pytest.skip("there is no g++, which builds the kernels for the processor")


@pytest.fixture(scope="session")
def emulator(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> emulation.Emulator:
    """Generated kernels on the processor."""
    _needs_compiler()
    return emulation.Emulator(tmp_path_factory, pytestconfig)


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> fake_machine.Machine:
    """Runs programs as on a machine with two GPUs."""
    _needs_compiler()
    return fake_machine.Machine(tmp_path_factory, pytestconfig)


@pytest.fixture(scope="session")
def nvrtc() -> Any:
    """The compiler module."""
    from mx_core.errors import MXNetError
    from mx_operators_cuda import nvrtc

    try:
        nvrtc.library()
    except MXNetError as error:
        if sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64"):
            pytest.fail(f"pip install 'nvidia-cuda-nvrtc>=13,<14' 'nvidia-cublas>=13,<14': {error}")
        pytest.skip(f"the test extra has no NVRTC for this platform: {error}")
    return nvrtc


@pytest.fixture
def gpu() -> Any:
    """gpu(0), on a machine with a GPU."""
    import mx_core
    from mx_operators_cuda import device

    problem = device.missing()
    if problem:
        pytest.skip(problem)
    return mx_core.gpu(0)
