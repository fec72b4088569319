# SPDX-License-Identifier: Apache-2.0
"""`mx.operator`: operators written in Python. The older kinds, of graphs only, come with mx-symbol."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mx_ndarray.custom import Custom as Custom
from mx_ndarray.custom import CustomOp as CustomOp
from mx_ndarray.custom import CustomOpProp as CustomOpProp
from mx_ndarray.custom import get_all_registered_operators as get_all_registered_operators
from mx_ndarray.custom import register as register

if TYPE_CHECKING:
    from mx_symbol.symbol.python_operators import NDArrayOp as NDArrayOp
    from mx_symbol.symbol.python_operators import NumpyOp as NumpyOp
    from mx_symbol.symbol.python_operators import PythonOp as PythonOp

_OLDER = ("NDArrayOp", "NumpyOp", "PythonOp")


def __getattr__(name: str) -> Any:
    if name in _OLDER:
        return getattr(importlib.import_module("mx_symbol.symbol.python_operators"), name)
    raise AttributeError(f"module 'mx.operator' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_OLDER})
