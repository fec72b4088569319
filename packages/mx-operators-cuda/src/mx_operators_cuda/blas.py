# SPDX-License-Identifier: Apache-2.0
"""cuBLAS and cuBLASLt: found and loaded when the first matrix product is prepared."""

from __future__ import annotations

import ctypes
from functools import cache, lru_cache
from pathlib import Path

from mx_core.errors import MXNetError
from mx_operators_cuda.libraries import load as load_first
from mx_operators_cuda.libraries import places

_PATTERNS = ("cu13/lib/libcublas.so.*", "cublas/lib/libcublas.so.*")
_SONAMES = ("libcublas.so.13", "libcublas.so.12")
_LIGHT_PATTERNS = ("cu13/lib/libcublasLt.so.*", "cublas/lib/libcublasLt.so.*")
_LIGHT_SONAMES = ("libcublasLt.so.13", "libcublasLt.so.12")
_CURE = "pip install 'nvidia-cublas>=13,<14'"
#: what MX_CUBLASLT says when cuBLASLt is not to be used
OFF = "off"


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

    def opened(path: str) -> None:
        # a wheel's cuBLAS needs the library next to it, which the system does not find
        for light in sorted(Path(path).parent.glob("libcublasLt.so.*")):
            ctypes.CDLL(str(light), mode=ctypes.RTLD_GLOBAL)
        _native.load_blas(path)

    candidates = places("MX_CUBLAS", _PATTERNS, "cublas", _SONAMES)
    return load_first("cuBLAS (CUDA's matrix products)", _CURE, candidates, opened)[0]


@lru_cache(maxsize=1)
def load_light() -> tuple[str, int]:
    """Loads cuBLASLt: the file that MX_CUBLASLT names, else from a wheel, else from the system.

    Returns
    -------
    (str, int)
        Where it was found, and its version: 130000.

    Raises
    ------
    MXNetError  it is not installed, or MX_CUBLASLT is "off"
    """
    from mx_operators_cuda import _native

    def opened(path: str) -> int:
        if path == OFF:
            raise MXNetError("cuBLASLt is not used")
        return int(_native.load_blas_lt(path))

    candidates = places("MX_CUBLASLT", _LIGHT_PATTERNS, "cublasLt", _LIGHT_SONAMES)
    return load_first("cuBLASLt (CUDA's matrix products with epilogues)", _CURE, candidates, opened)


@cache  # the search asks the system's tools, and would do so for every product
def has_epilogues() -> bool:
    """Whether cuBLASLt can be loaded; the first call tries."""
    try:
        load_light()
    except MXNetError:
        return False
    return True
