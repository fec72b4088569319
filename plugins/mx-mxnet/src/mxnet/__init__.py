# SPDX-License-Identifier: Apache-2.0
"""The name `mxnet` for mx: a program that says `import mxnet as mx` runs as it is.

Every name and every module below it is the one of `mx`. `__version__` is that of the MXNet whose interface mx has;
that of mx itself is `mx.__version__`.
"""

import sys as _sys
from typing import Any as _Any

from mxnet._real import refuse as _refuse

_refuse(_sys.path, __file__)

import mx as _mx  # noqa: E402
from mx.submodules import serve as _serve  # noqa: E402

__version__ = "1.9.1"

_serve(__name__)


def __getattr__(name: str) -> _Any:
    return getattr(_mx, name)


def __dir__() -> list[str]:
    return dir(_mx)
