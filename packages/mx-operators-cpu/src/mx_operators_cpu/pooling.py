# SPDX-License-Identifier: Apache-2.0
"""Pooling."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from mx_operators_cpu.library import native
from mx_operators_cpu.signature import channels_last, filled, native_floats

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall


def _window(p: Any, rank: int) -> dict[str, Any]:
    """Kernel, steps and padding, one value per spatial axis, and what else options of native code have."""
    return {
        "kernel": p.kernel,
        "stride": filled(p.stride, rank, 1),
        "pad": filled(p.pad, rank, 0),
        "pool_type": p.pool_type,
        "count_include_pad": p.count_include_pad is not False,
        "p_value": p.p_value or 1,
        "channels_last": channels_last(p.layout),
    }


@lru_cache(maxsize=1024)
def _fixed(p: Any, rank: int) -> native.PoolOptions:
    """What the parameters say for so many spatial axes, where no extent changes it, as native code reads it."""
    return native.PoolOptions(**_window(p, rank))


def _options(call: KernelCall, data: tuple[int, ...], output: tuple[int, ...]) -> native.PoolOptions:
    p: Any = call.params
    rank = len(data) - 2
    if not p.global_pool and p.pooling_convention != "same":
        return _fixed(p, rank)
    window = _window(p, rank)
    axes = slice(1, -1) if window["channels_last"] else slice(2, None)
    if p.global_pool:
        window |= {"kernel": data[axes], "stride": (1,) * rank, "pad": (0,) * rank}
    else:
        sizes = zip(data[axes], output[axes], p.kernel, window["stride"], strict=True)
        window["pad"] = [max((o - 1) * s + k - n, 0) // 2 for n, o, k, s in sizes]
    return native.PoolOptions(**window)


def supported(call: KernelCall) -> bool:
    """A norm has its exponent."""
    p: Any = call.params
    return native_floats(call) and (p.pool_type != "lp" or p.p_value is not None)


def pooling(call: KernelCall) -> object:
    """data -> output."""
    options = _options(call, call.inputs[0].shape, call.outputs[0].shape)
    return native.pooling(call.inputs, call.outputs, options)


def unread(call: KernelCall) -> frozenset[int]:
    """Inputs of `pooling_backward` whose values do not matter: shares of means and sums are those of all elements."""
    p: Any = call.params
    return frozenset((1, 2)) if p.pool_type in ("avg", "sum") else frozenset()


def pooling_backward(call: KernelCall) -> object:
    """out_grad, data, output -> data_grad."""
    options = _options(call, call.inputs[1].shape, call.inputs[0].shape)
    return native.pooling_backward(call.inputs, call.outputs, options)
