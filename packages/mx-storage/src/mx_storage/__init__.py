# SPDX-License-Identifier: Apache-2.0
"""Pooled, aligned memory and random resources with a C++ core."""

from __future__ import annotations

import mx_core  # noqa: F401  first, since it refuses sub-interpreters, where native parts would hang
from mx_storage._core import Block, Random, Stats, StorageManager
from mx_storage.temp_space import TempSpace, temp_space

__version__ = "0.1.0"

__all__ = ["Block", "Random", "Stats", "StorageManager", "TempSpace", "temp_space"]
