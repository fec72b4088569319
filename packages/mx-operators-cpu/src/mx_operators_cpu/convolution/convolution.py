# SPDX-License-Identifier: Apache-2.0
"""Convolution and Deconvolution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mx_operators_cpu.library import native
from mx_operators_cpu.settings import winograd_allowed
from mx_operators_cpu.signature import channels_last, filled, tensors

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall


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


def convolution(call: KernelCall) -> object:
    """data, weight[, bias] -> output."""
    return native.convolution(tensors(call.inputs), tensors(call.outputs), **window_of(call))


def convolution_backward(call: KernelCall) -> object:
    """out_grad, data, weight -> data_grad, weight_grad[, bias_grad]."""
    return native.convolution_backward(tensors(call.inputs[:3]), tensors(call.outputs), **window_of(call))


def deconvolution(call: KernelCall) -> object:
    """data, weight[, bias] -> output."""
    window = _transposed_window(call, call.inputs[0].shape, call.outputs[0].shape)
    return native.deconvolution(tensors(call.inputs), tensors(call.outputs), **window)


def deconvolution_backward(call: KernelCall) -> object:
    """out_grad, data, weight -> data_grad, weight_grad[, bias_grad]."""
    window = _transposed_window(call, call.inputs[1].shape, call.inputs[0].shape)
    return native.deconvolution_backward(tensors(call.inputs[:3]), tensors(call.outputs), **window)
