# SPDX-License-Identifier: Apache-2.0
"""Probability densities of samples and their gradients on a GPU, made of the traces of the references."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

from mx_core import expression as X
from mx_core.expression import Opcode
from mx_core.expression.derivative import replay
from mx_core.kernels import TensorSpec
from mx_operators_cuda import elementwise, folds
from mx_operators_cuda.codegen.rows import At
from mx_operators_cuda.folds import Fold, Rows
from mx_operators_cuda.launch import make_plan

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall


def density(call: KernelCall) -> Any:
    """sample, parameters -> density, or its logarithm."""
    op: Any = _declaration(call.op)
    p: Any = call.params
    if op.event or not folds.floating((*call.inputs, *call.outputs)):
        return None
    sample = call.inputs[0]
    rank = len(sample.shape)
    spread = [TensorSpec((*s.shape, *(1,) * (rank - len(s.shape))), s.dtype) for s in call.inputs]
    return elementwise.plan(call, X.trace(_value(op, p), len(spread)), spread, call.outputs)


def backward_density(call: KernelCall) -> Any:
    """out_grad, sample, parameters -> sample_grad, and a gradient per parameter, summed over its samples."""
    op: Any = _declaration(call.op)
    p: Any = call.params
    inputs = call.inputs[: 2 + len(op.arguments) - 1]
    if op.event or not folds.floating((*call.inputs, *call.outputs)):
        return None
    n, rows = len(inputs) - 1, prod(inputs[2].shape)
    extent = prod(inputs[1].shape[len(inputs[2].shape) :])
    value, log_density = _value(op, p), type(op).log_density

    def slopes(values: tuple[Any, ...]) -> list[Any]:
        g, x = values[0], values[1 : 1 + n]
        head = g if p.is_log else g * value(*x)
        return _slopes(log_density, head, x)

    def slope(i: int) -> Callable[..., Any]:
        return lambda *values: slopes(values)[i]

    def result(*values: Any) -> Any:
        return values[0] * 0.0 if op.discrete else slopes(values)[0]

    passes: list[list[Fold]] = [[(Opcode.ADD, slope(i)) for i in range(1, n)]]
    operands = [folds.read(i, s, At.ELEMENT if i < 2 else At.ROW) for i, s in enumerate(inputs)]
    outputs = [folds.write(o, s, At.ELEMENT if o < 1 else At.ROW) for o, s in enumerate(call.outputs)]
    steps, scratch = folds.launches(
        call.op.name, Rows.blocks(rows, extent, 1), operands, outputs, passes, result,
        lambda *values: tuple(values[1 - n :]),
    )  # fmt: skip
    return make_plan(call.op.name, call.context, call.inputs, call.outputs, steps, scratch=scratch)


def _declaration(op: Any) -> Any:
    return op.backward_of or op


def _value(op: Any, p: Any) -> Callable[..., Any]:
    def value(*x: Any) -> Any:
        logarithm = type(op).log_density(*x)
        return logarithm if p.is_log else X.exp(logarithm)

    return value


def _slopes(log_density: Callable[..., Any], head: Any, x: tuple[Any, ...]) -> list[Any]:
    """The head times the derivatives of the logarithm by each argument, in the trace of the head."""
    derived = X.differentiate(X.trace(log_density, len(x)))
    values = replay(head.builder, derived, [head, *x])
    return [values[i] for i in derived.outputs]
