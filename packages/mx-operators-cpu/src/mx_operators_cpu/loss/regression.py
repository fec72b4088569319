# SPDX-License-Identifier: Apache-2.0
"""Losses: the gradients of regression outputs, and cross entropy after softmax."""

from __future__ import annotations

from math import prod
from typing import Any

from mx_core import expression as X
from mx_core.kernels import KernelCall
from mx_operators_cpu.composite import Composite, runtime, traced
from mx_operators_cpu.library import native
from mx_operators_cpu.signature import accumulator, real


def _difference(label: Any, y: Any, scale: Any, count: Any) -> Any:
    return (y - label) * (scale / count)


def _sign(label: Any, y: Any, scale: Any, count: Any) -> Any:
    return X.sign(y - label) * (scale / count)


def backward_regression(call: KernelCall) -> object:
    """Difference of output and label (of MAE its sign), over the outputs of an example."""
    label, output = call.inputs
    if not real(call) or prod(label.shape) != prod(output.shape):
        return None
    per_example = max(prod(output.shape) // output.shape[0], 1) if output.shape and output.shape[0] else 1
    rule = _sign if call.op.name == "_backward_MAERegressionOutput" else _difference
    made = Composite(call)
    made.evaluate(
        traced(rule, 2, 2), [0, 1], [made.output(0)], [runtime(0), per_example], shapes=[output.shape]
    )
    return made.plan()


def _shifted_exp(x: Any, top: Any) -> Any:
    return X.exp(x - top)


def _softmax_parts(made: Composite, call: KernelCall, data: int) -> tuple[int, int]:
    """exp(x − max x), and its sums by row."""
    n, classes = call.inputs[data].shape
    dtype = accumulator(call.inputs[data].dtype)
    top, powers, sums = (made.temporary(s, dtype) for s in ((n,), (n, classes), (n,)))
    made.reduce(data, top, "max", (n, classes), [False, True])
    made.evaluate(traced(_shifted_exp, 2), [data, top], [powers], shapes=[None, (n, 1)])
    made.reduce(powers, sums, "sum", (n, classes), [False, True])
    return powers, sums


def _minus_log(picked: Any, total: Any) -> Any:
    return -X.log(X.maximum(picked / total, 1e-8))


def softmax_cross_entropy(call: KernelCall) -> object:
    """Sum of −log of the label's probability."""
    if not real(call) or prod(call.inputs[0].shape) == 0:
        return None
    n, classes = call.inputs[0].shape
    made, dtype = Composite(call), accumulator(call.inputs[0].dtype)
    powers, sums = _softmax_parts(made, call, 0)
    picked, losses = made.temporary((n,), dtype), made.temporary((n,), dtype)
    pick = native.index_plan(
        [((n, classes), dtype), (call.inputs[1].shape, call.inputs[1].dtype)], [((n,), dtype)],
        op=call.op.name, action="gather", bounds="inside", values=0, indices=1, extents=(classes,), outer=1,
        n=n, inner=1, per_element=True,
    )  # fmt: skip
    made.run(pick, [powers, 1], [picked])
    made.evaluate(traced(_minus_log, 2), [picked, sums], [losses])
    made.reduce(losses, made.output(0), "sum", (n,), [True])
    return made.plan()


def _less_label(g: Any, power: Any, total: Any, label: Any) -> Any:
    return (power / total - label) * g


def backward_softmax_cross_entropy(call: KernelCall) -> object:
    """Probabilities less one-hot labels, times the out-gradient."""
    if not real(call) or prod(call.inputs[1].shape) == 0:
        return None
    n, classes = call.inputs[1].shape
    made, dtype = Composite(call), accumulator(call.inputs[1].dtype)
    powers, sums = _softmax_parts(made, call, 1)
    labels = made.temporary((n, classes), dtype)
    label = (call.inputs[2].shape, call.inputs[2].dtype)
    made.run(native.one_hot_plan([label], [((n, classes), dtype)], classes), [2], [labels], [1.0, 0.0])
    made.evaluate(
        traced(_less_label, 4), [0, powers, sums, labels], [made.output(0)], shapes=[(1, 1), None, (n, 1)]
    )
    return made.plan()


def logistic(call: KernelCall) -> object:
    """The sigmoid of data."""
    if not real(call):
        return None
    made = Composite(call)
    made.evaluate(traced(X.sigmoid, 1), [0], [made.output(0)])
    return made.plan()
