# SPDX-License-Identifier: Apache-2.0
"""Matrix products: FullyConnected, dot, batch_dot, linalg_gemm, linalg_gemm2."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from mx_operators_cpu.library import native

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall


Shape = tuple[int, ...]


def fully_connected(call: KernelCall) -> object:
    """data, weight[, bias] -> output."""
    return native.fully_connected(call.inputs, call.outputs)


def fully_connected_backward(call: KernelCall) -> object:
    """out_grad, data, weight -> data_grad, weight_grad[, bias_grad]."""
    return native.fully_connected_backward(call.inputs[:3], call.outputs)


def _dot_sizes(call: KernelCall, lhs: Shape, rhs: Shape) -> dict[str, Any]:
    p: Any = call.params
    depth = lhs[0] if p.transpose_a else lhs[-1]
    return {
        "batch": 1, "m": prod(lhs) // depth, "k": depth, "n": prod(rhs) // depth,
        "transpose_a": p.transpose_a, "transpose_b": p.transpose_b, "scaled": False,
    }  # fmt: skip


def dot(call: KernelCall) -> object:
    """lhs, rhs -> output: sums over the last axis of lhs (first, if transposed) and the first of rhs."""
    sizes = _dot_sizes(call, call.inputs[0].shape, call.inputs[1].shape)
    return native.matmul(call.inputs, call.outputs, **sizes)


def dot_backward(call: KernelCall) -> object:
    """out_grad, lhs, rhs -> lhs_grad, rhs_grad."""
    sizes = _dot_sizes(call, call.inputs[1].shape, call.inputs[2].shape)
    return native.dot_backward(call.inputs, call.outputs, **sizes)


def _matrices(call: KernelCall, scaled: bool) -> object:
    p: Any = call.params
    lhs, rhs = call.inputs[0].shape, call.inputs[1].shape
    rows, depth = (lhs[-1], lhs[-2]) if p.transpose_a else (lhs[-2], lhs[-1])
    return native.matmul(
        call.inputs,
        call.outputs,
        batch=prod(lhs[:-2]),
        m=rows,
        k=depth,
        n=rhs[-2] if p.transpose_b else rhs[-1],
        transpose_a=p.transpose_a,
        transpose_b=p.transpose_b,
        scaled=scaled,
    )


def batch_dot(call: KernelCall) -> object:
    """lhs, rhs -> output: matrix products over the leading axes."""
    return _matrices(call, scaled=False)


def gemm(call: KernelCall) -> object:
    """A, B[, C] -> alpha * A B [+ beta * C] over the leading axes."""
    p: Any = call.params
    if p.axis not in (-2, len(call.inputs[0].shape) - 2):
        return None
    return _matrices(call, scaled=True)
