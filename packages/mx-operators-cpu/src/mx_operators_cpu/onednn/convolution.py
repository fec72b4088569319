# SPDX-License-Identifier: Apache-2.0
"""Convolution and Deconvolution."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from mx_core.errors import ArgumentError
from mx_operators_cpu.onednn.library import native
from mx_operators_cpu.onednn.signature import channels_last, filled, specs

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall


#: variables of this module and what they mean
VARIABLES = {"MX_WINOGRAD": "0: convolutions are computed directly, never by Winograd's minimal filtering"}


def winograd_allowed() -> bool:
    """MX_WINOGRAD; yes, where it is not set.

    Raises
    ------
    ArgumentError  another value than 0 or 1
    """
    value = os.environ.get("MX_WINOGRAD", "").strip() or "1"
    if value not in ("0", "1"):
        raise ArgumentError(f"[MX_WINOGRAD]: expected 0 or 1, got {value!r}")
    return value == "1"


def window_of(call: KernelCall) -> dict[str, Any]:
    """Kernel, steps and padding, one value per spatial axis."""
    p: Any = call.params
    rank = len(p.kernel)
    return {
        "kernel": list(p.kernel),
        "stride": filled(p.stride, rank, 1),
        "dilate": filled(p.dilate, rank, 1),
        "pad": filled(p.pad, rank, 0),
        "groups": p.num_group,
        "channels_last": channels_last(p.layout),
        "winograd": winograd_allowed(),
    }


def _transposed_window(call: KernelCall, data: tuple[int, ...], output: tuple[int, ...]) -> dict[str, Any]:
    """The window of a transposed convolution; a `target_shape` decides the padding instead of `pad`."""
    window = window_of(call)
    p: Any = call.params
    if any(p.target_shape):
        spatial = slice(1, -1) if window["channels_last"] else slice(2, None)
        sizes = zip(
            data[spatial], output[spatial], window["kernel"], window["stride"], window["dilate"], strict=True
        )
        window["pad"] = [((n - 1) * s + (k - 1) * d + 1 - m + 1) // 2 for n, m, k, s, d in sizes]
    return window


def convolution(call: KernelCall) -> object | None:
    """data, weight[, bias] -> output."""
    return native.convolution(specs(call.inputs), specs(call.outputs), **window_of(call))


def convolution_backward(call: KernelCall) -> object | None:
    """out_grad, data, weight -> data_grad, weight_grad[, bias_grad]."""
    return native.convolution_backward(specs(call.inputs[:3]), specs(call.outputs), **window_of(call))


def deconvolution(call: KernelCall) -> object | None:
    """data, weight[, bias] -> output."""
    window = _transposed_window(call, call.inputs[0].shape, call.outputs[0].shape)
    return native.deconvolution(specs(call.inputs), specs(call.outputs), **window)


def deconvolution_backward(call: KernelCall) -> object | None:
    """out_grad, data, weight -> data_grad, weight_grad[, bias_grad]."""
    window = _transposed_window(call, call.inputs[1].shape, call.inputs[0].shape)
    return native.deconvolution_backward(specs(call.inputs[:3]), specs(call.outputs), **window)
