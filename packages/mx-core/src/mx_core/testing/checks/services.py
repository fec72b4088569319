# SPDX-License-Identifier: Apache-2.0
"""Checks of engines, storage managers, random generators and devices."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from mx_core import services
from mx_core.context import Context
from mx_core.errors import MXNetError
from mx_core.plugins.registries import Entry
from mx_core.testing.checks.result import Result, attempt, name_of, optional, run_contract, run_made


def is_present(device: str) -> bool:
    """Whether there is memory of a device type."""
    if device.startswith("cpu"):
        return True
    try:
        return services.device_count(device) > 0
    except MXNetError:
        return False


def check_engine(entry: Entry) -> Iterator[Result]:
    """The contract of engines."""
    from mx_core.testing.engine import EngineContract

    class Contract(EngineContract):
        def make_engine(self) -> Any:
            return entry.value.make()

    yield from run_made(Contract(), entry.value.make, name_of(entry))


def check_storage(entry: Entry) -> Iterator[Result]:
    """The contract of storage managers."""
    if not is_present(entry.value.device):
        yield Result(
            name_of(entry), "contract of storage managers", None, f"there is no {entry.value.device} here"
        )
        return
    from mx_core.testing.storage import StorageContract

    class Contract(StorageContract):
        context = Context(entry.value.device)
        host_accessible = entry.value.device.startswith("cpu")

        def make_storage(self) -> Any:
            return entry.value.make()

    yield from run_made(Contract(), entry.value.make, name_of(entry))


def check_resource(entry: Entry) -> Iterator[Result]:
    """The contract of random generators."""
    from mx_core.testing.random import RandomContract

    class Contract(RandomContract):
        context = Context(entry.value.device)

        def make_random(self) -> Any:
            return entry.value.make()

    yield from run_made(Contract(), entry.value.make, name_of(entry))


def check_device(entry: Entry) -> Iterator[Result]:
    """Its table, the contract of devices, and arrays on it."""
    counted = attempt(name_of(entry), "devices can be counted", partial(services.device_count, entry.name))
    yield counted
    if counted.error is not None:
        return
    if not services.device_count(entry.name):
        yield Result(name_of(entry), "table", None, "there is no such device here")
        return

    def check_table() -> None:
        from mx_core import _native

        _native.check_table(services.device(entry.name).capsule, entry.distribution)

    yield attempt(name_of(entry), "its table is one this mx-core can use", check_table)
    yield from _check_device_contract(entry)
    arrays = optional("mx_ndarray")
    if arrays is None:
        yield Result(name_of(entry), "arrays", None, "mx-ndarray is not installed")
        return

    def copy() -> None:
        values = np.arange(12, dtype=np.float32).reshape(3, 4)
        there = arrays.nd.array(values, ctx=Context(entry.name))
        np.testing.assert_array_equal(there.asnumpy(), values)
        np.testing.assert_array_equal(there.copy().as_in_context(Context("cpu")).asnumpy(), values)

    yield attempt(name_of(entry), "arrays go there, are copied and come back", copy)


def _check_device_contract(entry: Entry) -> Iterator[Result]:
    from mx_core.testing.device_contract import DeviceContract

    class Contract(DeviceContract):
        context = Context(entry.name)

        def make_device(self) -> Any:
            return services.device(entry.name)

        def make_storage(self) -> Any:
            return services.storage(entry.name)

    try:
        services.storage(entry.name)
    except MXNetError as error:
        yield Result(name_of(entry), "contract of devices", None, f"it has no memory: {error}")
        return
    yield from run_contract(Contract(), name_of(entry))
