# SPDX-License-Identifier: Apache-2.0
"""Key-value store for parameters: local, device, and the contract for distributed stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mx_core.imports import lazy

if TYPE_CHECKING:
    from mx_kvstore.contract import KVStoreBase
    from mx_kvstore.factory import create
    from mx_kvstore.local import KVStore
    from mx_kvstore.teststore import TestStore as TestStore

__version__ = "0.1.0"

# Commands of plug-ins are found without NumPy. The test store registers itself, in the base that a program sees.
__getattr__, __dir__, _ = lazy(
    __name__,
    {
        "mx_kvstore.factory": ["create"],
        "mx_kvstore.local": ["KVStore"],
        "mx_kvstore.teststore": ["KVStoreBase", "TestStore"],
    },
)

__all__ = ["KVStore", "KVStoreBase", "create"]
