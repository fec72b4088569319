# SPDX-License-Identifier: Apache-2.0
"""The gpu device, its memory and CUDA kernels, generated and compiled by NVRTC."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mx_core.imports import lazy

if TYPE_CHECKING:
    from mx_operators_cuda.captured_step import CapturedStep as CapturedStep
    from mx_operators_cuda.cupy_memory import CupyMemory as CupyMemory
    from mx_operators_cuda.elementwise import generate as generate
    from mx_operators_cuda.elementwise import kernel as kernel
    from mx_operators_cuda.launch import Launch as Launch
    from mx_operators_cuda.nvrtc import compile_kernel as compile_kernel

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "mx_operators_cuda.captured_step": ["CapturedStep"],
        "mx_operators_cuda.cupy_memory": ["CupyMemory"],
        "mx_operators_cuda.elementwise": ["generate", "kernel"],
        "mx_operators_cuda.launch": ["Launch"],
        "mx_operators_cuda.nvrtc": ["compile_kernel"],
    },
)
