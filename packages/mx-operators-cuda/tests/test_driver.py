# SPDX-License-Identifier: Apache-2.0
"""What is said for drivers in every state; the driver library is a stand-in."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import pytest

from mx_core.context import gpu
from mx_core.errors import MXNetError
from mx_operators_cuda import device, driver


class Library:
    def __init__(self, init: int, count: int) -> None:
        self.init, self.count = init, count

    def cuDriverGetVersion(self, out: Any) -> int:
        out._obj.value = 13000
        return 0

    def cuInit(self, flags: int) -> int:
        return self.init

    def cuDeviceGetCount(self, out: Any) -> int:
        out._obj.value = self.count
        return 0

    def cuGetErrorName(self, status: int, out: Any) -> int:
        out._obj.value = b"CUDA_ERROR_NO_DEVICE"
        return 0


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """`machine(library or None, cupy)`: a machine with that driver, CuPy installed or not."""

    def make(library: Library | None, cupy: bool) -> None:
        real = ctypes.CDLL

        def load(name: str, mode: int = ctypes.DEFAULT_MODE) -> Any:
            if name not in ("libcuda.so.1", "nvcuda.dll"):
                return real(name, mode)
            if library is None:
                raise OSError(f"{name}: cannot open")
            return library

        monkeypatch.setattr(ctypes, "CDLL", load)
        monkeypatch.setattr(device, "find_spec", lambda name: object() if cupy else None)
        driver.driver.cache_clear()

    yield make
    driver.driver.cache_clear()


@pytest.mark.parametrize(
    ("library", "cupy", "count", "message"),
    [
        (None, False, 0, r"gpu\(0\) cannot be used: no NVIDIA driver was found \(there is no .*\) and CuPy is not "
                         r"installed; on a machine with an NVIDIA GPU: pip install 'mx-operators-cuda\[cuda\]'"),
        (None, True, 0, r"no NVIDIA driver was found \(there is no .*\); `mx doctor`"),
        (Library(100, 0), True, 0, r"the NVIDIA driver found no GPU \(CUDA_ERROR_NO_DEVICE, 100\)"),
        (Library(0, 0), True, 0, "the NVIDIA driver found no GPU"),
        (Library(0, 2), False, 2, r"CuPy is not installed; pip install 'mx-operators-cuda\[cuda\]'"),
        (Library(0, 2), True, 2, r"gpu\(0\) holds no arrays: mx-operators-cuda .* has no device table"),
    ],
)  # fmt: skip
def test_refusals(library: Library | None, cupy: bool, count: int, message: str, machine: Any) -> None:
    machine(library, cupy)
    assert driver.count() == count
    for refuse in (device.make_device, device.make_storage, device.refuse_arrays):
        with pytest.raises(MXNetError, match=message):
            refuse()


def test_a_gpu_that_there_is_not(machine: Any) -> None:
    machine(Library(0, 2), True)
    assert device.missing(gpu(1)) == ""
    with pytest.raises(MXNetError, match=r"gpu\(2\) cannot be used: this machine has gpu\(0\) to gpu\(1\)"):
        device.require(gpu(2))


def test_diagnostics(machine: Any) -> None:
    machine(Library(0, 2), False)
    lines = device.diagnostics()
    assert lines["NVIDIA driver"] == "for CUDA 13.0"
    assert lines["GPUs"] == "2"
    assert lines["CuPy"].startswith("not installed")
