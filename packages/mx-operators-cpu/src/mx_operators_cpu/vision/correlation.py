# SPDX-License-Identifier: Apache-2.0
"""The fit of displaced patches, and its gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mx_core.kernels import KernelCall
from mx_operators_cpu.library import native
from mx_operators_cpu.signature import real, tensors


def _plan(call: KernelCall, make: Callable[..., Any]) -> object:
    p: Any = call.params
    if not real(call):
        return None
    return make(
        tensors(call.inputs), tensors(call.outputs), kernel=p.kernel_size, displacement=p.max_displacement,
        stride=p.stride1, step=p.stride2, pad=p.pad_size, multiply=p.is_multiply,
    )  # fmt: skip


def correlation(call: KernelCall) -> object:
    """Sums over patches and channels."""
    return _plan(call, native.correlation_plan)


def backward_correlation(call: KernelCall) -> object:
    """Gradients of both maps."""
    return _plan(call, native.correlation_backward_plan)
