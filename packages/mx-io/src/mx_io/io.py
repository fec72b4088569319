# SPDX-License-Identifier: Apache-2.0
"""The namespace `mx.io`: iterators of this package and those that plug-ins register.

An iterator registered by the hook `mx_register_data_iters` is found here under its name.
"""

from __future__ import annotations

from typing import Any

from mx_io import lookup
from mx_io.iterators.base import DataBatch, DataDesc, DataIter
from mx_io.iterators.wrappers import PrefetchingIter, ResizeIter

__all__ = ["DataBatch", "DataDesc", "DataIter", "PrefetchingIter", "ResizeIter"]


def __getattr__(name: str) -> Any:
    found = globals()[name] = lookup.registered("data_iters", name, __name__)
    return found


def __dir__() -> list[str]:
    return sorted({*__all__, *lookup.names("data_iters")})
