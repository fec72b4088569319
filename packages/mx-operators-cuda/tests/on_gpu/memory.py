# SPDX-License-Identifier: Apache-2.0
"""Every storage manager of a GPU, real or fake, and the GPU itself keep their contracts; see `plans.py`."""

from __future__ import annotations

from typing import Any

from mx_core import cpu_pinned, gpu
from mx_core.testing.device_contract import DeviceContract
from mx_core.testing.storage import StorageContract
from mx_operators_cuda import _native, device, lending


class TestGpu(DeviceContract):
    context = gpu(0)

    def make_device(self) -> Any:
        return lending.make_device()

    def make_storage(self) -> Any:
        return device.make_storage()


class TestPooled(StorageContract):
    context, host_accessible = gpu(0), False

    def make_storage(self) -> Any:
        return device.make_storage()


class TestBestFit(StorageContract):
    context, host_accessible = gpu(0), False

    def make_storage(self) -> Any:
        return _native.StorageManager("BestFit", device="gpu", pool="best_fit")


class TestNaive(StorageContract):
    context, host_accessible = gpu(0), False

    def make_storage(self) -> Any:
        return _native.StorageManager("Naive", device="gpu", pool="naive")


class TestPinned(StorageContract):
    context = cpu_pinned(0)

    def make_storage(self) -> Any:
        return device.make_pinned()
