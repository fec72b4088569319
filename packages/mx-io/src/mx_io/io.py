# SPDX-License-Identifier: Apache-2.0
"""The namespace `mx.io`: iterators of this package and those that plug-ins register.

An iterator registered by the hook `mx_register_data_iters` is found here under its name:
`mx_io.io.NAME(**kwargs)`.
"""

from __future__ import annotations

from typing import Any

from mx_core import plugins
from mx_io.iterators.base import DataBatch, DataDesc, DataIter
from mx_io.iterators.wrappers import PrefetchingIter, ResizeIter

__all__ = ["DataBatch", "DataDesc", "DataIter", "PrefetchingIter", "ResizeIter"]


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module 'mx_io.io' has no attribute {name!r}")
    registry = plugins.registry("data_iters")
    if name not in registry:
        hint = plugins.missing_hint("data_iters", name)
        raise AttributeError(f"module 'mx_io.io' has no iterator {name!r}. {hint}".rstrip())
    from mx_core.specs import resolve

    found = globals()[name] = resolve(registry.get(name).value.make)
    return found


def __dir__() -> list[str]:
    return sorted({*__all__, *plugins.registry("data_iters").names()})
