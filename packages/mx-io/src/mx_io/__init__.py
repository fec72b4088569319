# SPDX-License-Identifier: Apache-2.0
"""RecordIO, data iterators and the image pipeline.

Submodules: `recordio`, `io` (iterators), `image`, `im2rec`, `codecs`. They are imported when first used, and
`recordio` needs nothing but mx_core and NumPy.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_SUBMODULES = ("codecs", "im2rec", "image", "io", "recordio")


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"mx_io.{name}")
    raise AttributeError(f"module 'mx_io' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted((*globals(), *_SUBMODULES))
