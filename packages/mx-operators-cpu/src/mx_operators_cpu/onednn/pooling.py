# SPDX-License-Identifier: Apache-2.0
"""Pooling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mx_operators_cpu.onednn.library import native
from mx_operators_cpu.onednn.signature import channels_last, filled, specs

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall


def _window(call: KernelCall, spatial: tuple[int, ...]) -> dict[str, Any]:
    p, rank = call.params, len(spatial)
    whole = p.global_pool
    return {
        "kernel": list(spatial) if whole else list(p.kernel),
        "stride": [1] * rank if whole else filled(p.stride, rank, 1),
        "pad": [0] * rank if whole else filled(p.pad, rank, 0),
        "pool_type": p.pool_type,
        "count_include_pad": p.count_include_pad is not False,
        "p_value": p.p_value or 2,
    }


def supported(call: KernelCall) -> bool:
    """Channels come first."""
    from mx_operators_cpu.onednn.signature import floating

    return floating(call) and not channels_last(call.params.layout)


def pooling(call: KernelCall) -> object | None:
    """data -> output."""
    window = _window(call, call.inputs[0].shape[2:])
    return native.pooling(specs(call.inputs), specs(call.outputs), **window)


def pooling_backward(call: KernelCall) -> object | None:
    """out_grad, data, output -> data_grad."""
    window = _window(call, call.inputs[1].shape[2:])
    return native.pooling_backward(specs(call.inputs), specs(call.outputs), **window)
