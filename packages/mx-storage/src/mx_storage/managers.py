# SPDX-License-Identifier: Apache-2.0
"""The storage managers and the random resource of this process."""

from __future__ import annotations

import functools
import weakref

from mx_storage._core import Random, StorageManager
from mx_storage.choice import sizes

_made: weakref.WeakSet[StorageManager] = weakref.WeakSet()


def pooled() -> StorageManager:
    """A manager that keeps freed memory for reuse."""
    return _watched(StorageManager("Pooled"))


def best_fit() -> StorageManager:
    """A manager that cuts large mappings to size: for sizes that seldom repeat."""
    return _watched(StorageManager("BestFit", pool="best_fit"))


def rounded() -> StorageManager:
    """A manager with a bucket per power of two."""
    return _watched(StorageManager("Round", pool="round", **sizes()))


def pages() -> StorageManager:
    """A manager with a bucket per number of pages: MXNet's `Naive`."""
    return _watched(StorageManager("Pages", pool="pages", **sizes()))


def naive() -> StorageManager:
    """A manager without a pool: every block comes from the system and goes back to it."""
    return _watched(StorageManager("Naive", pool="naive"))


def shared() -> StorageManager:
    """The manager of memory that processes share."""
    return _watched(StorageManager("Shared", pool="shared"))


def _watched(manager: StorageManager) -> StorageManager:
    _made.add(manager)
    return manager


def managers() -> list[StorageManager]:
    """The managers made for services that are alive."""
    return list(_made)


@functools.cache
def random() -> Random:
    """The process's random streams: one object for all devices, so that one seed reaches them all."""
    return Random("Philox4x32-10")
