# SPDX-License-Identifier: Apache-2.0
"""The gpu device and CUDA kernels, through CuPy and NVRTC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mx_operators_cuda.elementwise import ElementwisePlan as ElementwisePlan
    from mx_operators_cuda.elementwise import generate as generate
    from mx_operators_cuda.nvrtc import compile_kernel as compile_kernel

__version__ = "0.1.0"
__all__ = ["ElementwisePlan", "compile_kernel", "generate"]
_HOME = {"ElementwisePlan": "elementwise", "generate": "elementwise", "compile_kernel": "nvrtc"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
