# SPDX-License-Identifier: Apache-2.0
"""Matrix products: FullyConnected, dot, batch_dot, linalg_gemm2."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from mx_operators_cpu.onednn.library import native
from mx_operators_cpu.onednn.signature import specs

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall


def fully_connected(call: KernelCall) -> object | None:
    """data, weight[, bias] -> output."""
    return native.fully_connected(specs(call.inputs), specs(call.outputs))


def fully_connected_backward(call: KernelCall) -> object | None:
    """out_grad, data, weight -> data_grad, weight_grad[, bias_grad]."""
    return native.fully_connected_backward(specs(call.inputs[:3]), specs(call.outputs))


def dot(call: KernelCall) -> object | None:
    """Contracts the last axis of lhs (first, if transposed) with the first of rhs (last)."""
    p: Any = call.params
    lhs, rhs = (t.shape for t in call.inputs)
    k = lhs[0] if p.transpose_a else lhs[-1]
    return native.matmul(
        specs(call.inputs), specs(call.outputs),
        batch=1, m=prod(lhs) // k, k=k, n=prod(rhs) // k,
        transpose_a=p.transpose_a, transpose_b=p.transpose_b, alpha=1.0,
    )


def batch_dot(call: KernelCall) -> object | None:
    """Matrix products over the leading axes."""
    return _matrices(call, 1.0)


def gemm2(call: KernelCall) -> object | None:
    """alpha * A B over the leading axes."""
    p: Any = call.params
    if p.axis not in (-2, len(call.inputs[0].shape) - 2):
        return None
    return _matrices(call, p.alpha)


def _matrices(call: KernelCall, alpha: float) -> object | None:
    p: Any = call.params
    lhs, rhs = (t.shape for t in call.inputs)
    rows, depth = (lhs[-1], lhs[-2]) if p.transpose_a else (lhs[-2], lhs[-1])
    return native.matmul(
        specs(call.inputs), specs(call.outputs),
        batch=prod(lhs[:-2]), m=rows, k=depth, n=rhs[-2] if p.transpose_b else rhs[-1],
        transpose_a=p.transpose_a, transpose_b=p.transpose_b, alpha=alpha,
    )
