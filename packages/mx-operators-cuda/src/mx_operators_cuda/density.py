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
from mx_operators_cuda import elementwise, folds, written
from mx_operators_cuda.codegen import names
from mx_operators_cuda.codegen.rows import At
from mx_operators_cuda.folds import Fold, Rows
from mx_operators_cuda.launch import Kind, make_plan

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


# ---- Dirichlet: a sum over the last axis, and the normalisation of the parameter's sum ----


def _samples(sample: TensorSpec, alpha: TensorSpec) -> tuple[int, int, written.Argument]:
    """Samples, elements of the parameter, and the struct of the kernels."""
    extent, rows = sample.shape[-1], prod(sample.shape[:-1])
    shared = prod(sample.shape[len(alpha.shape) - 1 : -1])
    numbers = [written.number(n) for n in (rows, shared, extent, prod(alpha.shape))]
    return rows, prod(alpha.shape), written.struct("density::Samples", numbers)


def _alike(call: KernelCall) -> bool:
    specs = (*call.inputs, *call.outputs)
    return folds.floating(specs) and len({s.dtype for s in specs}) == 1


def dirichlet(call: KernelCall) -> Any:
    """sample, alpha -> density, or its logarithm."""
    p: Any = call.params
    if not _alike(call):
        return None
    code = call.inputs[0].dtype
    n, _, samples = _samples(*call.inputs[:2])
    arguments = [
        *(written.read((Kind.INPUT, i), code) for i in (0, 1)), written.write((Kind.OUTPUT, 0), code),
        written.number(int(p.is_log)), samples,
    ]  # fmt: skip
    steps = (
        [written.launch(call.op.name, "density::dirichlet", [names.STORAGE[code]], arguments, n)] if n else []
    )
    return make_plan(call.op.name, call.context, call.inputs, call.outputs, steps)


def backward_dirichlet(call: KernelCall) -> Any:
    """out_grad, sample, alpha -> sample_grad, alpha_grad."""
    p: Any = call.params
    if not _alike(call):
        return None
    code, name = call.inputs[0].dtype, call.op.name
    n, elements, samples = _samples(*call.inputs[1:3])
    g = written.Argument("{0}", (("double*", (Kind.SCRATCH, 0)),))
    given = [written.read((Kind.INPUT, i), code) for i in (1, 2)]
    types, steps = [names.STORAGE[code]], []
    if n:
        arguments = [written.read((Kind.INPUT, 0), code), *given, g, written.number(int(p.is_log)), samples]
        steps.append(written.launch(name, "density::heads", types, arguments, n))
    for o, (function, threads) in enumerate(
        (("by_sample", prod(call.inputs[1].shape)), ("by_alpha", elements))
    ):
        arguments = [g, *given, written.write((Kind.OUTPUT, o), code), samples]
        if threads:
            steps.append(written.launch(name, f"density::{function}", types, arguments, threads))
    return make_plan(name, call.context, call.inputs, call.outputs, steps, scratch=[max(8 * n, 8)])
