# SPDX-License-Identifier: Apache-2.0
"""RecordIO, data iterators and the image pipeline.

Submodules: `recordio`, `io` (iterators), `image`, `im2rec`, `codecs`, and `pipeline` for sources of one's own. They
are imported when first used, and `recordio` needs nothing but mx_core and NumPy.
"""

from __future__ import annotations

from mx_core.imports import lazy

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy(
    __name__, {}, ["codecs", "im2rec", "image", "io", "pipeline", "recordio"]
)
