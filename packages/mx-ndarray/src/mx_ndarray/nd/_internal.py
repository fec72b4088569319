# SPDX-License-Identifier: Apache-2.0
"""Operators whose names begin with an underscore, such as those behind Python's `+`."""

from mx_ndarray.ndarray import NDArray as _Array
from mx_ndarray.operator_functions import namespace

__getattr__, __dir__ = namespace(__name__, internal=True)


def _set_value(src: float, out: _Array) -> _Array:
    """Fill an array with a number."""
    out[:] = src
    return out
