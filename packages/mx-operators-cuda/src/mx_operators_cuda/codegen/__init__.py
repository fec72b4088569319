# SPDX-License-Identifier: Apache-2.0
"""From elementwise expressions to CUDA C++: pure Python, needs neither CUDA nor a GPU."""

from mx_operators_cuda.codegen.layout import Layout as Layout
from mx_operators_cuda.codegen.layout import layout_of as layout_of
from mx_operators_cuda.codegen.source import KernelSource as KernelSource
from mx_operators_cuda.codegen.source import write_kernel as write_kernel
