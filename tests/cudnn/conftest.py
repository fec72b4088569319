# SPDX-License-Identifier: Apache-2.0
"""A driver without a GPU for cuDNN: `driver.c`."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def driver(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Opened before cuDNN, whose parts that compile kernels are linked with it in 9.28, and looked it up in 9.19."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    assert compiler is not None, "there is no C compiler, which builds the driver"
    made = tmp_path_factory.mktemp("driver") / "libcuda.so.1"
    source = Path(__file__).parent / "driver.c"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", str(source), "-o", str(made)], check=True
    )
    ctypes.CDLL(str(made), mode=ctypes.RTLD_GLOBAL)
