# SPDX-License-Identifier: Apache-2.0
"""The contract of devices: right ones pass, and it finds what is wrong with others."""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mx_core import plugins, services
from mx_core.context import Context, cpu
from mx_core.testing import DeviceContract, FakeDevice
from mx_core.testing.plugin import run_contract
from mx_ndarray import nd
from testkit import device_plugin

pytestmark = pytest.mark.timeout(120)


class TestAccelerator(DeviceContract):
    """Threads that work late, in C++."""

    @pytest.fixture(autouse=True)
    def _installed(self, device: Context, accelerator: device_plugin.Library) -> None:
        self.context = device
        accelerator.native.set_delay(200)  # microseconds

    def make_device(self) -> Any:
        return services.device(device_plugin.NAME)

    def make_storage(self) -> Any:
        return services.storage(device_plugin.NAME)


class OnHostMemory(DeviceContract):
    """A fake device, whose memory is the host's."""

    memory_context = cpu()
    kind: type[FakeDevice] = FakeDevice

    @functools.cached_property
    def made(self) -> list[Any]:
        """The devices, which a wrong one must not outlive at work."""
        return []

    def make_device(self) -> Any:
        made = self.kind(type=77)
        self.context = made.context()  # type: ignore[assignment]
        return made

    def make_storage(self) -> Any:
        return services.storage("cpu")

    def _device(self) -> Any:
        self.make_device()
        made = super()._device()
        self.made.append(made)
        return made


class TestFakeDevice(OnHostMemory):
    """Python's threads."""


class Slow(FakeDevice):
    def _copy(self, _: int, stream: int, to: int, to_context: Any, source: int, *rest: Any) -> int:
        self._streams[stream - 1].work.put(lambda: time.sleep(0.001))
        return super()._copy(_, stream, to, to_context, source, *rest)


class WaitsForNobody(Slow):
    def _stream_wait(self, _: int, stream: int, token: int, error: Any) -> int:
        return 0


class ReachedTooSoon(Slow):
    def _wait(self, _: int, token: int, error: Any) -> int:
        return 0


class LosesTheEnd(FakeDevice):
    def _copy(self, _: int, stream: int, to: int, to_context: Any, source: int, *rest: Any) -> int:
        size = rest[1]
        self._streams[stream - 1].work.put(lambda: ctypes.memmove(to, source, size - size % 8))
        return 0


class TakesAnyNumber(FakeDevice):
    def _stream(self, _: int, device_id: int, lane: int, stream: Any, error: Any) -> int:
        stream[0] = 1 + lane
        return 0


class CountsNone(FakeDevice):
    def _count(self, _: int) -> int:
        return 0


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (WaitsForNobody, "a stream waits for another"),
        (ReachedTooSoon, "tokens are reached in order and stay reached"),
        (LosesTheEnd, "bytes go there are copied and come back"),
        (TakesAnyNumber, "a device that is not there is refused"),
        (CountsNone, "says what and how many it is"),
    ],
)
def test_what_is_wrong_is_found(kind: type[FakeDevice], found: str) -> None:
    contract = OnHostMemory()
    contract.kind = kind
    results = list(run_contract(contract, "device"))
    for made in contract.made:
        made.device.synchronize()
    assert found in {result.check for result in results if result.error is not None}


def test_mx_plugins_check_runs_it(device: Context) -> None:
    from mx_core.testing.plugin import CHECKS

    entry = plugins.registry("devices").get(device_plugin.NAME)
    check: Callable[..., Any] = CHECKS["devices"]
    results = {result.check: result for result in check(entry)}
    assert results["a stream waits for another"].error is None
    assert all(result.error is None and result.unchecked is None for result in results.values()), results
    assert np.array_equal(nd.ones((2,), ctx=device).asnumpy(), [1, 1])
