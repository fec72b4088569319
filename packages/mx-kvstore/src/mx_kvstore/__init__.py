# SPDX-License-Identifier: Apache-2.0
"""Key-value store for parameters: local, device, and the contract for distributed stores."""

from __future__ import annotations

from mx_kvstore.contract import KVStoreBase
from mx_kvstore.factory import create
from mx_kvstore.local import KVStore
from mx_kvstore.teststore import TestStore as TestStore

__version__ = "0.1.0"

__all__ = ["KVStore", "KVStoreBase", "create"]
