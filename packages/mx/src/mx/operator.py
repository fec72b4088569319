# SPDX-License-Identifier: Apache-2.0
"""`mx.operator`: operators written in Python. The older kinds, of graphs only, come with mx-symbol."""

from __future__ import annotations

import sys as _sys
from typing import TYPE_CHECKING

from mx.absent import explain as _explain
from mx_core.imports import lazy as _lazy
from mx_ndarray.custom import Custom as Custom
from mx_ndarray.custom import CustomOp as CustomOp
from mx_ndarray.custom import CustomOpProp as CustomOpProp
from mx_ndarray.custom import get_all_registered_operators as get_all_registered_operators
from mx_ndarray.custom import register as register

if TYPE_CHECKING:
    from mx_symbol.symbol.python_operators import NDArrayOp as NDArrayOp
    from mx_symbol.symbol.python_operators import NumpyOp as NumpyOp
    from mx_symbol.symbol.python_operators import PythonOp as PythonOp

__getattr__, __dir__ = _lazy(
    __name__, {"mx_symbol.symbol.python_operators": ["NDArrayOp", "NumpyOp", "PythonOp"]}
)[:2]

_explain(_sys.modules[__name__], [__name__])
