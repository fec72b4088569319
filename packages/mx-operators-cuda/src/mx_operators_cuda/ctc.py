# SPDX-License-Identifier: Apache-2.0
"""Connectionist temporal classification on a GPU.

No kernel can raise an error about a value it reads: labels and lengths are limited to the classes and steps that
there are.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_core import expression as X
from mx_core.kernels import TensorSpec
from mx_operators_cuda import elementwise, folds, written
from mx_operators_cuda.codegen import names
from mx_operators_cuda.codegen.source import BLOCK
from mx_operators_cuda.launch import Kind, make_plan

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

_INT32, _FLOAT64 = dtypes.code("int32"), dtypes.code("float64")


def loss(call: KernelCall) -> Any:
    """data, label[, data_lengths][, label_lengths] -> output0, slope."""
    p: Any = call.params
    data, label = call.inputs[:2]
    if not folds.floating((data, *call.outputs)) or any(
        s.layout or s.dtype not in names.STORAGE for s in call.inputs
    ):
        return None
    steps, batch, classes = data.shape
    labels = label.shape[1]
    if classes >= 1 << 31:
        return None
    code, states = data.dtype, 2 * labels + 1
    given = iter(range(2, len(call.inputs)))
    places = [next(given) if wanted else None for wanted in (p.use_data_lengths, p.use_label_lengths)]
    lengths = [
        written.absent(code) if i is None else written.read((Kind.INPUT, i), call.inputs[i].dtype)
        for i in places
    ]
    numbers = (
        steps,
        batch,
        classes,
        labels,
        0 if p.blank_label == "first" else classes - 1,
        p.blank_label == "first",
    )
    scratch = [batch * labels * 4, batch * steps * 8, *[batch * steps * states * 8] * 2]
    arguments = [
        written.read((Kind.INPUT, 0), code), written.read((Kind.INPUT, 1), label.dtype), *lengths,
        *(written.write((Kind.OUTPUT, o), code) for o in (0, 1)), written.write((Kind.SCRATCH, 0), _INT32),
        *(written.write((Kind.SCRATCH, i), _FLOAT64) for i in (1, 2, 3)),
        written.struct("ctc::Extents", [written.number(int(n)) for n in numbers]),
    ]  # fmt: skip
    kinds = [code if i is None else call.inputs[i].dtype for i in places]
    types = [names.STORAGE[one] for one in (code, label.dtype, *kinds)]
    if prod(data.shape) == 0:
        zeros = [elementwise.kernel("zeros", elementwise.ZERO, [], [call.outputs[0]])]
        steps_ = [z for z in zeros if z is not None and z.threads]
        return make_plan(call.op.name, call.context, call.inputs, call.outputs, steps_)
    made = written.launch(call.op.name, "ctc::loss", types, arguments, batch * BLOCK, barriers=True)
    return make_plan(
        call.op.name, call.context, call.inputs, call.outputs, [made], scratch=[max(n, 1) for n in scratch]
    )  # fmt: skip


def backward_loss(call: KernelCall) -> Any:
    """out_grad, slope, ... -> data_grad: the slope, scaled per sequence."""
    head, slope = call.inputs[:2]
    if not folds.floating((head, slope, *call.outputs)):
        return None
    each = TensorSpec((1, *head.shape, 1), head.dtype)
    return elementwise.plan(call, X.trace(lambda g, s: g * s, 2), [each, slope], call.outputs)
