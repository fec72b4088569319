# SPDX-License-Identifier: Apache-2.0
"""moving_average on NVIDIA GPUs: CUDA C++, compiled by NVRTC and launched by mx-operators-cuda.

Imported when the kernel is used on a GPU, so mx-operators-cuda need not be installed elsewhere.
"""

from __future__ import annotations

from math import prod
from typing import Any

from mx_operators_cuda.codegen.source import KernelSource
from mx_operators_cuda.launch import Kind, Launch, make_plan

#: type code -> type in memory, type of the sum
TYPES = {
    0: ("float", "float"),
    1: ("double", "double"),
    2: ("mx::half", "float"),
    12: ("mx::bfloat16", "float"),
}

#: a thread per mean; the grid may have fewer threads than there are means
FORWARD = """
#include "mx_operators_cuda/elementwise.cuh"

extern "C" __global__ void __launch_bounds__(256)
moving_average(const {type}* x, {type}* y, int request, mx::uint32 n, mx::uint32 length, mx::uint32 window) {{
  for (mx::uint32 i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {{
    const {type}* first = x + i / length * (length + window - 1) + i % length;
    {sum} sum = 0;
    for (mx::uint32 k = 0; k < window; ++k) sum += mx::convert<{sum}>(first[k]);
    mx::store(y, i, request, sum / {sum}(window));
  }}
}}
"""

#: a thread per value, which takes part in up to `window` means
BACKWARD = """
#include "mx_operators_cuda/elementwise.cuh"

extern "C" __global__ void __launch_bounds__(256)
backward_moving_average(const {type}* g, {type}* x, int request, mx::uint32 n, mx::uint32 length, mx::uint32 window) {{
  for (mx::uint32 i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {{
    const mx::uint32 width = length + window - 1, at = i % width;
    const {type}* row = g + i / width * length;
    {sum} sum = 0;
    for (mx::uint32 k = 0; k < window; ++k)
      if (at >= k && at - k < length) sum += mx::convert<{sum}>(row[at - k]);
    mx::store(x, i, request, sum / {sum}(window));
  }}
}}
"""


def moving_average(call: Any) -> Any:
    """A plan for a signature; None declines it."""
    return _plan(call, "moving_average", FORWARD, length=call.outputs[0].shape[-1])


def backward_moving_average(call: Any) -> Any:
    """The same for the gradient."""
    return _plan(call, "backward_moving_average", BACKWARD, length=call.inputs[0].shape[-1])


def _plan(call: Any, name: str, text: str, length: int) -> Any:
    (source,), (target,) = call.inputs, call.outputs
    n, window = prod(target.shape), call.params.window
    if target.dtype not in TYPES or max(n, prod(source.shape)) >= 2**31:
        return None
    kind, total = TYPES[target.dtype]
    launch = Launch(
        KernelSource(name, text.format(type=kind, sum=total), pack=1),
        threads=n,
        parameters=(
            (Kind.INPUT, 0), (Kind.OUTPUT, 0), (Kind.REQUEST, 0),
            (Kind.UINT32, n), (Kind.UINT32, length), (Kind.UINT32, window),
        ),
    )  # fmt: skip
    return make_plan(call.op.name, call.context, call.inputs, call.outputs, [launch] if n else [])
