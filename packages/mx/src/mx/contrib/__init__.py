# SPDX-License-Identifier: Apache-2.0
"""`mx.contrib`: mixed precision, text, TensorBoard, SVRG, loaders as iterators, and former names of other modules."""

from __future__ import annotations

import sys as _sys

from mx.absent import explain as _explain
from mx_core.imports import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {},
    ["amp", "autograd", "io", "nd", "ndarray", "svrg_optimization", "sym", "symbol", "tensorboard", "text"],
)

_explain(_sys.modules[__name__], [__name__])
