# SPDX-License-Identifier: Apache-2.0
"""Pooling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mx_operators_cpu.library import native
from mx_operators_cpu.signature import channels_last, filled, native_floats

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall


def _window(call: KernelCall, data: tuple[int, ...], output: tuple[int, ...]) -> dict[str, Any]:
    p: Any = call.params
    last = channels_last(p.layout)
    axes = slice(1, -1) if last else slice(2, None)
    spatial, rank = data[axes], len(data) - 2
    if p.global_pool:
        kernel, stride, pad = spatial, (1,) * rank, (0,) * rank
    else:
        kernel, stride, pad = p.kernel, filled(p.stride, rank, 1), filled(p.pad, rank, 0)
        if p.pooling_convention == "same":
            sizes = zip(spatial, output[axes], kernel, stride, strict=True)
            pad = tuple([max((o - 1) * s + k - n, 0) // 2 for n, o, k, s in sizes])
    return {
        "kernel": kernel,
        "stride": stride,
        "pad": pad,
        "pool_type": p.pool_type,
        "count_include_pad": p.count_include_pad is not False,
        "p_value": p.p_value or 1,
        "channels_last": last,
    }


def supported(call: KernelCall) -> bool:
    """A norm has its exponent."""
    p: Any = call.params
    return native_floats(call) and (p.pool_type != "lp" or p.p_value is not None)


def pooling(call: KernelCall) -> object:
    """data -> output."""
    window = _window(call, call.inputs[0].shape, call.outputs[0].shape)
    return native.pooling(call.inputs, call.outputs, **window)


def unread(call: KernelCall) -> frozenset[int]:
    """Inputs of `pooling_backward` whose values do not matter: shares of means and sums are those of all elements."""
    p: Any = call.params
    return frozenset((1, 2)) if p.pool_type in ("avg", "sum") else frozenset()


def pooling_backward(call: KernelCall) -> object:
    """out_grad, data, output -> data_grad."""
    window = _window(call, call.inputs[1].shape, call.inputs[0].shape)
    return native.pooling_backward(call.inputs, call.outputs, **window)
