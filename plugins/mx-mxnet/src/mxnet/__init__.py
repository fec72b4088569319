# SPDX-License-Identifier: Apache-2.0
"""The name `mxnet` for mx: a program that says `import mxnet as mx` runs as it is.

Every name and every module below it is the one of `mx`. `__version__` is that of the MXNet whose interface mx has;
that of mx itself is `mx.__version__`.
"""

import sys as _sys
from typing import Any as _Any

from mx_core.imports import Early as _Early
from mxnet._real import refuse as _refuse

_early = _Early(__name__)
_sys.meta_path.insert(0, _early)
_refuse(_sys.path, __file__)

# ruff: noqa: E402  imports of other threads wait from here on
import mx as _mx
from mx.submodules import serve as _serve

__version__ = "1.9.1"

_serve(__name__)
_early.serve()


def __getattr__(name: str) -> _Any:
    return getattr(_mx, name)


def __dir__() -> list[str]:
    return dir(_mx)
