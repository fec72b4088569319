# SPDX-License-Identifier: Apache-2.0
"""Convolution and Deconvolution."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_operators_cpu.composite import Composite, same, traced
from mx_operators_cpu.library import native
from mx_operators_cpu.signature import channels_last, filled

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

_FLOAT, _DOUBLE = dtypes.code("float32"), dtypes.code("float64")


def _window(p: Any) -> dict[str, Any]:
    """Kernel, steps and padding, one value per spatial axis, and what else options of native code have."""
    rank = len(p.kernel)
    return {
        "kernel": p.kernel,
        "stride": filled(p.stride, rank, 1),
        "dilate": filled(p.dilate, rank, 1),
        "pad": filled(p.pad, rank, 0),
        "groups": p.num_group,
        "channels_last": channels_last(p.layout),
    }


@lru_cache(maxsize=1024)
def options_of(p: Any) -> native.ConvolutionOptions:
    """What the parameters say, as native code reads it."""
    return native.ConvolutionOptions(**_window(p))


def _transposed_options(
    call: KernelCall, data: tuple[int, ...], output: tuple[int, ...]
) -> native.ConvolutionOptions:
    """Those of a transposed convolution; a `target_shape` decides the padding instead of `pad`."""
    p: Any = call.params
    if not any(p.target_shape):
        return options_of(p)
    window = _window(p)
    spatial = slice(1, -1) if window["channels_last"] else slice(2, None)
    sizes = zip(
        data[spatial], output[spatial], window["kernel"], window["stride"], window["dilate"], strict=True
    )
    window["pad"] = [((n - 1) * s + (k - 1) * d + 1 - m + 1) // 2 for n, m, k, s, d in sizes]
    return native.ConvolutionOptions(**window)


def _through_float64(
    call: KernelCall, make: Callable[..., object | None], options: native.ConvolutionOptions
) -> object | None:
    """Gradients that oneDNN has no right kernel for, by the kernels for float64 between casts."""
    made, inputs = Composite(call), []
    for i, spec in enumerate(call.inputs[:3]):
        inputs.append(made.temporary(spec.shape, _DOUBLE))
        made.evaluate(traced(same, 1), [i], [inputs[-1]])
    outputs = [made.temporary(spec.shape, _DOUBLE) for spec in call.outputs]
    plan = make(
        [(spec.shape, _DOUBLE) for spec in call.inputs[:3]],
        [(spec.shape, _DOUBLE) for spec in call.outputs],
        options,
    )
    if plan is None:
        return None
    made.run(plan, inputs, outputs)
    for i, found in enumerate(outputs):
        made.evaluate(traced(same, 1), [found], [made.output(i)])
    joined: object = made.plan()
    return joined


def _gradients(
    call: KernelCall, make: Callable[..., object | None], options: native.ConvolutionOptions
) -> object | None:
    plan = make(call.inputs[:3], call.outputs, options)
    if plan is None and call.inputs[0].dtype == _FLOAT:
        return _through_float64(call, make, options)
    return plan  # narrower types come again, in float32


def convolution(call: KernelCall) -> object:
    """data, weight[, bias] -> output."""
    return native.convolution(call.inputs, call.outputs, options_of(call.params))


def convolution_backward(call: KernelCall) -> object:
    """out_grad, data, weight -> data_grad, weight_grad[, bias_grad]."""
    return _gradients(call, native.convolution_backward, options_of(call.params))


def deconvolution(call: KernelCall) -> object:
    """data, weight[, bias] -> output."""
    options = _transposed_options(call, call.inputs[0].shape, call.outputs[0].shape)
    return native.deconvolution(call.inputs, call.outputs, options)


def deconvolution_backward(call: KernelCall) -> object:
    """out_grad, data, weight -> data_grad, weight_grad[, bias_grad]."""
    options = _transposed_options(call, call.inputs[1].shape, call.inputs[0].shape)
    return _gradients(call, native.deconvolution_backward, options)
