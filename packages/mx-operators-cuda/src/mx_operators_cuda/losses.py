# SPDX-License-Identifier: Apache-2.0
"""Losses on a GPU: regression outputs, hinge, cross-entropy, MakeLoss, and a penalty of activations."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_core import expression as X
from mx_core.expression import Opcode
from mx_core.kernels import TensorSpec
from mx_operators_cuda import elementwise, folds, movement, reduce
from mx_operators_cuda.codegen.reduction import runs_of
from mx_operators_cuda.codegen.rows import At
from mx_operators_cuda.folds import Fold, Operand, Rows, read, write
from mx_operators_cuda.launch import Kind, Parameter, make_plan

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall


def regression(call: KernelCall) -> Any:
    """data, or its sigmoid; labels are for the gradient alone."""
    if call.op.name == "LogisticRegressionOutput":
        return elementwise.plan(call, X.trace(X.sigmoid, 1), call.inputs[:1], call.outputs, n_scalars=1)
    return movement.copy(call)


def backward_regression(call: KernelCall) -> Any:
    """label, output -> data_grad: the difference, or its sign, over the outputs of an example."""
    label, output = call.inputs
    shape, size = output.shape, prod(output.shape)
    per_example = max(size // shape[0], 1) if shape and shape[0] else 1
    signs = call.op.name == "_backward_MAERegressionOutput"

    def gradient(label: Any, y: Any, scale: Any) -> Any:
        difference = y - label
        return (X.sign(difference) if signs else difference) * (scale / float(per_example))

    flat = [TensorSpec((size,), spec.dtype) for spec in (label, output, call.outputs[0])]
    return elementwise.plan(call, X.trace(gradient, 2, 1), flat[:2], flat[2:])


def backward_svm(call: KernelCall) -> Any:
    """label, output -> data_grad: +1 for the label's class, -1 for others, where the margin is violated."""
    p: Any = call.params
    label, output = call.inputs
    if not folds.floating((*call.inputs, *call.outputs)) or output.shape[-1] >= 1 << 24:
        return None

    def result(label: Any, y: Any, margin: Any, factor: Any, k: Any, n: Any) -> Any:
        side = X.where(X.trunc(label) == k, 1.0, -1.0)
        violated = X.maximum(margin - side * y, 0.0)
        return -side * ((violated > 0.0) if p.use_linear else 2.0 * violated) * factor

    steps, scratch = folds.launches(
        call.op.name, Rows.along(output.shape, len(output.shape) - 1), [read(0, label, At.ROW), read(1, output)],
        [write(0, call.outputs[0])], (), result, scalars=2,
    )  # fmt: skip
    return make_plan(
        call.op.name, call.context, call.inputs, call.outputs, steps, n_scalars=2, scratch=scratch
    )  # fmt: skip


_PROBABILITY: list[list[Fold]] = [
    [(Opcode.MAXIMUM, lambda x, label, k, n: x)],
    [(Opcode.ADD, lambda x, label, k, n, m: X.exp(x - m)),
     (Opcode.ADD, lambda x, label, k, n, m: X.where(X.trunc(label) == k, X.exp(x - m), 0.0))],
]  # fmt: skip


def softmax_cross_entropy(call: KernelCall) -> Any:
    """data, label -> the sum over rows; a label that is no class has the least probability that is counted."""
    data, label = call.inputs
    if data.dtype not in (0, 1) or not folds.floating((*call.inputs, *call.outputs)) or 0 in data.shape:
        return None
    if data.shape[1] >= 1 << 24:
        return None

    def loss(x: Any, label: Any, k: Any, n: Any, m: Any, total: Any, own: Any) -> Any:
        return -X.log(X.maximum(own / total, 1e-8))

    each = Operand((Kind.SCRATCH, 0), data.dtype, At.ROW)
    rows, segments = folds.launches(
        call.op.name, Rows.along(data.shape, 1), [read(0, data), read(1, label, At.ROW)], [each], _PROBABILITY, None,
        loss, scratch=1,
    )  # fmt: skip
    scratch = [data.shape[0] * dtypes.itemsize(data.dtype), *segments]
    sums, parts = reduce.launches(
        f"{call.op.name}_sum", reduce.SUM, runs_of((data.shape[0],), (0,)), data.dtype
    )
    places: dict[Parameter, Parameter] = {
        (Kind.INPUT, 0): (Kind.SCRATCH, 0), (Kind.SCRATCH, 0): (Kind.SCRATCH, len(scratch)),
    }  # fmt: skip
    steps = [*rows, *(launch.taking(places) for launch in sums)]
    return make_plan(
        call.op.name, call.context, call.inputs, call.outputs, steps, scratch=[*scratch, *parts]
    )  # fmt: skip


def backward_softmax_cross_entropy(call: KernelCall) -> Any:
    """out_grad, data, label -> data_grad."""
    head, data, label = call.inputs
    if not folds.floating((*call.inputs, *call.outputs)) or data.shape[1] >= 1 << 24:
        return None

    def plain(function: Any) -> Any:
        return lambda g, *values: function(*values)

    def result(g: Any, x: Any, label: Any, k: Any, n: Any, m: Any, total: Any) -> Any:
        return (X.exp(x - m) / total - X.where(X.trunc(label) == k, 1.0, 0.0)) * g

    passes: list[list[Fold]] = [[(one[0][0], plain(one[0][1]))] for one in _PROBABILITY]
    steps, scratch = folds.launches(
        call.op.name, Rows.along(data.shape, 1), [read(0, head, At.ONE), read(1, data), read(2, label, At.ROW)],
        [write(0, call.outputs[0])], passes, result,
    )  # fmt: skip
    return make_plan(call.op.name, call.context, call.inputs, call.outputs, steps, scratch=scratch)


def backward_make_loss(call: KernelCall) -> Any:
    """A constant; that over the number of valid values takes another pass, and is declined."""
    p: Any = call.params
    if p.normalization == "valid":
        return None
    divisor = max(prod(call.outputs[0].shape[:-1]), 1) if p.normalization == "batch" else 1
    return elementwise.plan(
        call, X.trace(lambda scale, threshold: scale / float(divisor), 0, 2), [], call.outputs
    )  # fmt: skip


def sparse(call: KernelCall) -> Any:
    """data, moving_avg -> data, average; in training the average moves to the mean of each channel."""
    p: Any = call.params
    data, average = call.inputs
    if not folds.floating((*call.inputs, *call.outputs)):
        return None
    training = call.is_train and prod(data.shape) > 0
    outputs = [write(0, call.outputs[0]), write(1, call.outputs[1], At.ROW)]
    passes: list[list[Fold]] = []
    if training:
        passes = [[(Opcode.ADD, lambda x, a, k, n: x)]]
        outputs.append(Operand((Kind.INPUT, 1), average.dtype, At.ROW))

    def moved(x: Any, a: Any, k: Any, n: Any, *total: Any) -> Any:
        if not training:
            return a
        mean = a * p.momentum + (total[0] / n) * (1 - p.momentum)
        return mean, mean

    steps, scratch = folds.launches(
        call.op.name, Rows.of(data.shape, 1), [read(0, data), read(1, average, At.ROW)], outputs, passes,
        lambda x, *_: x, moved,
    )  # fmt: skip
    return make_plan(call.op.name, call.context, call.inputs, call.outputs, steps, scratch=scratch)


def backward_sparse(call: KernelCall) -> Any:
    """out_grad, average -> the gradient, to which that of the penalty is added."""
    p: Any = call.params
    head, average = call.inputs[:2]
    if not folds.floating((*call.inputs, *call.outputs)):
        return None

    def gradient(g: Any, average: Any, k: Any, n: Any) -> Any:
        slope = (1 - p.sparseness_target) / (1 - average) - p.sparseness_target / average
        return g + p.penalty * slope

    steps, scratch = folds.launches(
        call.op.name, Rows.of(head.shape, 1), [read(0, head), read(1, average, At.ROW)], [write(0, call.outputs[0])],
        (), gradient,
    )  # fmt: skip
    return make_plan(call.op.name, call.context, call.inputs, call.outputs, steps, scratch=scratch)
