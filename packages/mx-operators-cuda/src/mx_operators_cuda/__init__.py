# SPDX-License-Identifier: Apache-2.0
"""The gpu device and CUDA kernels, through CuPy and NVRTC."""

__version__ = "0.1.0"
