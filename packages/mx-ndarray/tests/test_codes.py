# SPDX-License-Identifier: Apache-2.0
"""MXNet's numbers, which programs import from `mxnet.ndarray.ndarray`."""

import numpy as np

from mx_ndarray import nd
from mx_ndarray.nd import _DTYPE_MX_TO_NP, _DTYPE_NP_TO_MX, _GRAD_REQ_MAP, _STORAGE_TYPE_STR_TO_ID


def test_numbers_are_those_of_mxnet_and_of_arrays():
    assert _STORAGE_TYPE_STR_TO_ID == {"undefined": -1, "default": 0, "row_sparse": 1, "csr": 2}
    assert nd._STORAGE_TYPE_ID_TO_STR[_STORAGE_TYPE_STR_TO_ID[nd.ones(1).stype]] == "default"
    assert _GRAD_REQ_MAP == {"null": 0, "write": 1, "add": 3}
    assert _DTYPE_NP_TO_MX[None] == -1 and _DTYPE_MX_TO_NP[-1] is None
    for number, kind in enumerate(
        (np.float32, np.float64, np.float16, np.uint8, np.int32, np.int8, np.int64)
    ):
        assert _DTYPE_NP_TO_MX[kind] == number and _DTYPE_MX_TO_NP[number] is kind
        assert nd.ones(1, dtype=kind)._dtype_code == _DTYPE_NP_TO_MX[nd.ones(1, dtype=kind).dtype]
