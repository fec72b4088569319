# SPDX-License-Identifier: Apache-2.0
"""NumPy's universal functions on NDArrays."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from mx_core import operators
from mx_ndarray.ndarray import NDArray, operand
from mx_ndarray.operator_functions import function

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul,
    "divide": operator.truediv, "true_divide": operator.truediv, "remainder": operator.mod,
    "power": operator.pow, "equal": operator.eq, "not_equal": operator.ne, "less": operator.lt,
    "less_equal": operator.le, "greater": operator.gt, "greater_equal": operator.ge,
    "matmul": operator.matmul,
}  # fmt: skip
_UNARY = {"absolute": "abs", "conjugate": "identity"}


def apply_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`np.sin(array)`, `np.ones(3) * array`: with the operator of that name, else through NumPy.

    Results of operators are NDArrays; NumPy's own results stay NumPy arrays.
    """
    if method == "__call__" and not kwargs:
        if ufunc.__name__ in _BINARY and len(inputs) == 2:
            return _BINARY[ufunc.__name__](*_alike(inputs))
        name = _UNARY.get(ufunc.__name__, ufunc.__name__)
        op = operators.find(name)
        if len(inputs) == 1 and op is not None and op.arguments == ("data",):
            return function(name)(inputs[0])
    out = kwargs.get("out", ())
    if any(isinstance(target, NDArray) for target in out):
        return NotImplemented
    plain = [x.asnumpy() if isinstance(x, NDArray) else x for x in inputs]
    return getattr(ufunc, method)(*plain, **kwargs)


def _alike(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """NumPy arrays become NDArrays of the other operand's type and context."""
    like = next(x for x in inputs if isinstance(x, NDArray))
    return tuple(operand(like, x) if isinstance(x, np.ndarray) and x.ndim else _number(x) for x in inputs)


def _number(x: Any) -> Any:
    return x.item() if isinstance(x, (np.generic, np.ndarray)) else x
