# SPDX-License-Identifier: Apache-2.0
"""softmax, log_softmax, both for labels, SoftmaxActivation, SoftmaxOutput and the cross entropy after softmax."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from mx_operators_cpu.library import native
from mx_operators_cpu.signature import native_floats, plain

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

Shape = tuple[int, ...]


def supported(call: KernelCall) -> bool:
    """One element type, and no lengths per row."""
    p: Any = call.params
    dtype = call.inputs[0].dtype
    for spec in call.inputs + call.outputs:
        if spec.dtype != dtype:
            return False
    return not p.use_length and native_floats(call)


def _along_axis(call: KernelCall, *, logarithm: bool, backward: bool, sign: float = 1.0) -> object:
    p: Any = call.params
    if p.temperature == 0:  # NaN everywhere, which is the reference's to say
        return None
    shape = call.outputs[0].shape or (1,)
    make = native.softmax_backward if backward else native.softmax
    return make(
        call.inputs,
        call.outputs,
        view=shape,
        axis=p.axis % len(shape),
        logarithm=logarithm,
        temperature=sign * (1.0 if p.temperature is None else p.temperature),
    )


def softmax(call: KernelCall) -> object:
    """data -> output."""
    return _along_axis(call, logarithm=False, backward=False)


def softmax_backward(call: KernelCall) -> object:
    """out_grad, output -> data_grad."""
    return _along_axis(call, logarithm=False, backward=True)


def softmin(call: KernelCall) -> object:
    """data -> output: softmax at the negative temperature."""
    return _along_axis(call, logarithm=False, backward=False, sign=-1.0)


def softmin_backward(call: KernelCall) -> object:
    """out_grad, output -> data_grad."""
    return _along_axis(call, logarithm=False, backward=True, sign=-1.0)


def log_softmax(call: KernelCall) -> object:
    """data -> output."""
    return _along_axis(call, logarithm=True, backward=False)


def log_softmax_backward(call: KernelCall) -> object:
    """out_grad, output -> data_grad."""
    return _along_axis(call, logarithm=True, backward=True)


def _activation_view(call: KernelCall) -> Shape:
    """(rows, classes, inner) of SoftmaxActivation."""
    shape = call.outputs[0].shape
    p: Any = call.params
    if p.mode == "channel":
        return shape[0], shape[1], prod(shape[2:])
    return shape[0], prod(shape[1:]), 1


def softmax_activation(call: KernelCall) -> object:
    """data -> output."""
    return native.softmax(
        call.inputs,
        call.outputs,
        view=_activation_view(call),
        axis=1,
        logarithm=False,
        temperature=1.0,
    )


def softmax_activation_backward(call: KernelCall) -> object:
    """out_grad, output -> data_grad."""
    return native.softmax_backward(
        call.inputs,
        call.outputs,
        view=_activation_view(call),
        axis=1,
        logarithm=False,
        temperature=1.0,
    )


def _output_view(call: KernelCall, shape: Shape) -> Shape:
    """(rows, classes, inner) of SoftmaxOutput."""
    p: Any = call.params
    if p.multi_output:
        return shape[0], shape[1], prod(shape[2:])
    if p.preserve_shape:
        return prod(shape[:-1]), shape[-1], 1
    return shape[0], prod(shape[1:]), 1


def softmax_output(call: KernelCall) -> object:
    """data, label -> output; the label is not read."""
    return native.softmax(
        call.inputs,
        call.outputs,
        view=_output_view(call, call.outputs[0].shape),
        axis=1,
        logarithm=False,
        temperature=1.0,
    )


def softmax_output_backward(call: KernelCall) -> object:
    """label, output -> data_grad."""
    if len(call.inputs) != 2:  # multiplied by the out-gradient
        return None
    p: Any = call.params
    label, output = (t.shape for t in call.inputs)
    rows, classes, inner = _output_view(call, output)
    return native.softmax_output_backward(
        call.inputs,
        call.outputs,
        rows=rows,
        classes=classes,
        inner=inner,
        smooth_alpha=0.0 if p.multi_output else p.smooth_alpha,
        use_ignore=p.use_ignore,
        label_is_distribution=label == output,
        normalization=p.normalization,
    )


def cross_entropy(call: KernelCall) -> object:
    """data, label -> loss."""
    return native.cross_entropy(call.inputs, call.outputs)


def cross_entropy_backward(call: KernelCall) -> object:
    """out_grad, data, label -> data_grad."""
    return native.cross_entropy_backward(call.inputs, call.outputs)


def picked(call: KernelCall) -> object:
    """data, label -> logarithms, probabilities."""
    specs = (*call.inputs, *call.outputs)
    return native.picked_softmax(call.inputs, call.outputs) if plain(*specs) else None


def picked_backward(call: KernelCall) -> object:
    """out_grad, label, probabilities -> data_grad."""
    specs = (*call.inputs, *call.outputs)
    return native.picked_softmax_backward(call.inputs, call.outputs) if plain(*specs) else None
