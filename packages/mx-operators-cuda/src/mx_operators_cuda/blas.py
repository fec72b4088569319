# SPDX-License-Identifier: Apache-2.0
"""cuBLAS: found and loaded when the first matrix product is prepared."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from pathlib import Path

from mx_core.errors import MXNetError
from mx_operators_cuda.libraries import places

_PATTERNS = ("cu13/lib/libcublas.so.*", "cublas/lib/libcublas.so.*")
_SONAMES = ("libcublas.so.13", "libcublas.so.12")


@lru_cache(maxsize=1)
def load() -> str:
    """Loads it: the file that MX_CUBLAS names, else from a wheel, else from the system.

    Returns
    -------
    str
        Where it was found.

    Raises
    ------
    MXNetError  it is not installed
    """
    from mx_operators_cuda import _native

    tried = []
    for path in places("MX_CUBLAS", _PATTERNS, "cublas", _SONAMES):
        try:
            # a wheel's cuBLAS needs the library next to it, which the system does not find
            for light in sorted(Path(path).parent.glob("libcublasLt.so.*")):
                ctypes.CDLL(str(light), mode=ctypes.RTLD_GLOBAL)
            _native.load_blas(path)
            return path
        except (OSError, MXNetError) as error:
            tried.append(f"{path}: {error}")
    raise MXNetError(
        "cuBLAS (CUDA's matrix products) was not found; pip install 'nvidia-cublas>=13,<14'. Tried "
        + "; ".join(tried)
    )
