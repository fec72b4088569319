# SPDX-License-Identifier: Apache-2.0
"""The gpu device, its memory and CUDA kernels, generated and compiled by NVRTC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mx_operators_cuda.cupy_memory import CupyMemory as CupyMemory
    from mx_operators_cuda.elementwise import generate as generate
    from mx_operators_cuda.elementwise import kernel as kernel
    from mx_operators_cuda.launch import Launch as Launch
    from mx_operators_cuda.nvrtc import compile_kernel as compile_kernel

__version__ = "0.1.0"
_HOME = {
    "CupyMemory": "cupy_memory", "Launch": "launch", "compile_kernel": "nvrtc", "generate": "elementwise",
    "kernel": "elementwise",
}  # fmt: skip
__all__ = ["CupyMemory", "Launch", "compile_kernel", "generate", "kernel"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
