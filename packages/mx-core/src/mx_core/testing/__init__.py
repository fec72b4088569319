# SPDX-License-Identifier: Apache-2.0
"""Contract tests for authors of plug-ins: the ones mx's own parts pass.

Subclass a contract in a pytest module, say how to make the thing, and its tests are yours:

    class TestMyEngine(EngineContract):
        def make_engine(self):
            return my_package.Engine()

Needs NumPy; pytest is only needed to run the classes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mx_core.testing.codec import CodecContract
    from mx_core.testing.data_iter import DataIterContract
    from mx_core.testing.device import FakeDevice
    from mx_core.testing.device_contract import DeviceContract
    from mx_core.testing.engine import EngineContract
    from mx_core.testing.expect import raises, within
    from mx_core.testing.kernel import check_kernel
    from mx_core.testing.kvstore import KVStoreContract
    from mx_core.testing.operator import check_operator
    from mx_core.testing.plan import run_plan
    from mx_core.testing.random import RandomContract
    from mx_core.testing.storage import StorageContract
    from mx_core.testing.storage_shared import SharedStorageContract

_HOMES = {
    "CodecContract": "codec",
    "DataIterContract": "data_iter",
    "DeviceContract": "device_contract",
    "EngineContract": "engine",
    "FakeDevice": "device",
    "KVStoreContract": "kvstore",
    "RandomContract": "random",
    "SharedStorageContract": "storage_shared",
    "StorageContract": "storage",
    "check_kernel": "kernel",
    "check_operator": "operator",
    "raises": "expect",
    "run_plan": "plan",
    "within": "expect",
}

__all__ = [
    "CodecContract",
    "DataIterContract",
    "DeviceContract",
    "EngineContract",
    "FakeDevice",
    "KVStoreContract",
    "RandomContract",
    "SharedStorageContract",
    "StorageContract",
    "check_kernel",
    "check_operator",
    "raises",
    "run_plan",
    "within",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
