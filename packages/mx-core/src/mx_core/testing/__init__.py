# SPDX-License-Identifier: Apache-2.0
"""Contract tests for authors of plug-ins: the ones mx's own parts pass.

Subclass a contract in a pytest module, say how to make the thing, and its tests are yours:

    class TestMyEngine(EngineContract):
        def make_engine(self):
            return my_package.Engine()

Needs NumPy; pytest is only needed to run the classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mx_core.imports import lazy

if TYPE_CHECKING:
    from mx_core.testing.codec import CodecContract as CodecContract
    from mx_core.testing.data_iter import DataIterContract as DataIterContract
    from mx_core.testing.device import FakeDevice as FakeDevice
    from mx_core.testing.device_contract import DeviceContract as DeviceContract
    from mx_core.testing.engine import EngineContract as EngineContract
    from mx_core.testing.expect import raises as raises
    from mx_core.testing.expect import within as within
    from mx_core.testing.kernel import check_kernel as check_kernel
    from mx_core.testing.kvstore import KVStoreContract as KVStoreContract
    from mx_core.testing.operator import check_operator as check_operator
    from mx_core.testing.plan import run_plan as run_plan
    from mx_core.testing.random import RandomContract as RandomContract
    from mx_core.testing.storage import StorageContract as StorageContract
    from mx_core.testing.storage_shared import SharedStorageContract as SharedStorageContract

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "mx_core.testing.codec": ["CodecContract"],
        "mx_core.testing.data_iter": ["DataIterContract"],
        "mx_core.testing.device": ["FakeDevice"],
        "mx_core.testing.device_contract": ["DeviceContract"],
        "mx_core.testing.engine": ["EngineContract"],
        "mx_core.testing.expect": ["raises", "within"],
        "mx_core.testing.kernel": ["check_kernel"],
        "mx_core.testing.kvstore": ["KVStoreContract"],
        "mx_core.testing.operator": ["check_operator"],
        "mx_core.testing.plan": ["run_plan"],
        "mx_core.testing.random": ["RandomContract"],
        "mx_core.testing.storage": ["StorageContract"],
        "mx_core.testing.storage_shared": ["SharedStorageContract"],
    },
)
