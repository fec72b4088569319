# SPDX-License-Identifier: Apache-2.0
"""MXNet's numbers of storage types, gradient requests and element types, under the names that programs import."""

from __future__ import annotations

from typing import Any

import numpy as np

from mx_core import dtypes

_STORAGE_TYPE_UNDEFINED, _STORAGE_TYPE_DEFAULT, _STORAGE_TYPE_ROW_SPARSE, _STORAGE_TYPE_CSR = -1, 0, 1, 2
_STORAGE_TYPE_STR_TO_ID = {
    "undefined": _STORAGE_TYPE_UNDEFINED,
    "default": _STORAGE_TYPE_DEFAULT,
    "row_sparse": _STORAGE_TYPE_ROW_SPARSE,
    "csr": _STORAGE_TYPE_CSR,
}
_STORAGE_TYPE_ID_TO_STR = {number: name for name, number in _STORAGE_TYPE_STR_TO_ID.items()}
_GRAD_REQ_MAP = {"null": 0, "write": 1, "add": 3}
#: of None, of no type: −1
_DTYPE_NP_TO_MX: dict[Any, int] = {None: -1} | {
    np.dtype(name).type: dtypes.code(name)
    for name in ("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool")
}
_DTYPE_MX_TO_NP = {number: kind for kind, number in _DTYPE_NP_TO_MX.items()}
