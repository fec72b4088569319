# SPDX-License-Identifier: Apache-2.0
"""A machine with two GPUs for subprocesses: the fake driver, and the NVRTC, cuBLAS, cuDNN and NCCL that go with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from testkit import compiled
from testkit.cuda_emulator import COMPILER, HERE, INCLUDES, SOURCES, precompile


def build(folder: Path) -> None:
    """Builds the libraries."""
    assert COMPILER is not None
    for name in ("fake_cuda", "fake_nvrtc", "fake_cublas", "fake_cublaslt", "fake_cudnn", "fake_nccl"):
        command = [COMPILER, "-std=c++17", "-O1", "-shared", "-fPIC", "-pthread", "-w",
                   *(f"-I{path}" for path in INCLUDES), str(HERE / "fake" / f"{name}.cc"), "-o", str(folder / f"{name}.so"), "-ldl"]  # fmt: skip
        if name not in ("fake_cuda", "fake_nvrtc"):  # they enqueue on the streams of the driver
            command += [f"-L{folder}", "-l:fake_cuda.so", "-Wl,-rpath,$ORIGIN"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:4000]
    precompile(folder)


def environment(folder: Path) -> dict[str, str]:
    """The variables with which they are found; kernels that programs generate are kept beside them."""
    return {
        "MX_CUDA_DRIVER": str(folder / "fake_cuda.so"),
        "MX_NVRTC": str(folder / "fake_nvrtc.so"),
        "MX_CUBLAS": str(folder / "fake_cublas.so"),
        "MX_CUBLASLT": str(folder / "fake_cublaslt.so"),
        "MX_CUDNN": "off",  # tests that want it give the next one
        "FAKE_CUDNN": str(folder / "fake_cudnn.so"),
        "MX_NCCL": str(folder / "fake_nccl.so"),
        "FAKE_NVRTC_FOLDER": str(folder),
        "FAKE_NVRTC_INCLUDE": ":".join(map(str, (folder, *INCLUDES))),
    }


class Machine:
    """Runs Python programs on the machine."""

    def __init__(self, factory: pytest.TempPathFactory, config: pytest.Config) -> None:
        inputs = (Path(__file__), HERE / "fake", *SOURCES)
        self.environment = environment(compiled.kept(factory, config, inputs, build))

    def run(self, program: str, timeout: float = 100, **settings: str) -> str:
        """What a program prints; it must end well.

        Parameters
        ----------
        settings
            Environment variables beside the machine's, such as FAKE_CUDA_DELAY="200".
        """
        done = self.attempt(program, timeout, **settings)
        assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        return done.stdout

    def check(self, name: str, timeout: float = 550, **settings: str) -> None:
        """Runs the tests of `on_gpu/NAME.py`."""
        command = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(HERE / "on_gpu" / f"{name}.py")]
        done = self._python(command, timeout, settings)
        assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-2000:]}"
        assert " skipped" not in done.stdout, done.stdout

    def attempt(
        self, program: str, timeout: float = 100, **settings: str
    ) -> subprocess.CompletedProcess[str]:
        """A program that may fail."""
        return self._python(["-c", program], timeout, settings)

    def _python(
        self, arguments: list[str], timeout: float, settings: dict[str, str]
    ) -> subprocess.CompletedProcess[str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("FAKE_", "PYTEST_", "COV_"))}
        return subprocess.run(
            [sys.executable, "-X", "faulthandler", *arguments], capture_output=True, text=True,
            timeout=timeout, env={**kept, **self.environment, **settings},
        )  # fmt: skip
