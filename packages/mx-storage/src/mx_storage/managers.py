# SPDX-License-Identifier: Apache-2.0
"""The storage managers and the random resource of this process."""

from __future__ import annotations

import functools
from typing import Literal

from mx_core.errors import ArgumentError, SettingError
from mx_core.weak import WeakGroup
from mx_storage._core import Random, StorageManager
from mx_storage.choice import SIZES, sizes

_made: WeakGroup[StorageManager] = WeakGroup()


def pooled() -> StorageManager:
    """A manager that keeps freed memory for reuse."""
    return _watched(StorageManager("Pooled"))


def best_fit() -> StorageManager:
    """A manager that cuts large mappings to size: for sizes that seldom repeat."""
    return _watched(StorageManager("BestFit", pool="best_fit"))


def rounded() -> StorageManager:
    """A manager with a bucket per power of two."""
    return _watched(_bucketed("Round", "round"))


def pages() -> StorageManager:
    """A manager with a bucket per number of pages: MXNet's `Naive`."""
    return _watched(_bucketed("Pages", "pages"))


def naive() -> StorageManager:
    """A manager without a pool: every block comes from the system and goes back to it."""
    return _watched(StorageManager("Naive", pool="naive"))


def shared() -> StorageManager:
    """The manager of memory that processes share."""
    return _watched(StorageManager("Shared", pool="shared"))


def _bucketed(name: str, pool: Literal["round", "pages"]) -> StorageManager:
    try:
        return StorageManager(name, pool=pool, **sizes())
    except SettingError:
        raise
    except ArgumentError as error:  # sizes come from the environment alone
        raise SettingError(f"[{', '.join(SIZES)}] {error}") from error


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
