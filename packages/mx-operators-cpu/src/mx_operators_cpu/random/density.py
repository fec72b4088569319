# SPDX-License-Identifier: Apache-2.0
"""Densities of samples and their gradients, computed in float64 from the operators' expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from mx_core import dtypes
from mx_core import expression as X
from mx_core.errors import NoKernelError
from mx_core.expression import Expression
from mx_core.kernels import KernelCall
from mx_operators_cpu.composite import Composite, same, traced
from mx_operators_cpu.signature import floating

_DOUBLE = dtypes.code("float64")


@cache
def _value(log_density: Callable[..., Any], n: int, is_log: bool) -> Expression:
    def value(*inputs: Any) -> Any:
        found = log_density(*inputs)
        return found if is_log else X.exp(found)

    return X.trace(value, n)


@cache
def _slopes(log_density: Callable[..., Any], n: int, is_log: bool, by_sample: bool) -> Expression:
    """Slopes by samples and parameters, times the out-gradient."""

    def slopes(head: Any, *inputs: Any) -> Sequence[Any]:
        g = head if is_log else head * X.exp(log_density(*inputs))
        return _derived(log_density, g, inputs)[0 if by_sample else 1 :]

    return X.trace(slopes, n + 1)


def _derived(log_density: Callable[..., Any], g: Any, inputs: Sequence[Any]) -> list[Any]:
    """g times the derivatives of a function, written into the trace of g."""
    derived = X.differentiate(X.trace(log_density, len(inputs)))
    values = X.replay(g.builder, derived, [g, *inputs])
    return [values[output] for output in derived.outputs]


def _shared(shape: Sequence[int], rank: int, event: int = 0) -> tuple[int, ...]:
    """The shape of a parameter with axes for those that only samples have."""
    batch = len(shape) - event
    return (*shape[:batch], *(1,) * (rank - len(shape)), *shape[batch:])


def _wide(made: Composite, source: int, shape: Sequence[int]) -> int:
    """An array in float64."""
    found = made.temporary(shape, _DOUBLE)
    made.evaluate(traced(same, 1), [source], [found], shapes=[tuple(shape)])
    return found


def _last(made: Composite, source: int, shape: Sequence[int]) -> int:
    """Sums over the last axis, in float64."""
    found = made.temporary((*shape[:-1], 1), _DOUBLE)
    made.reduce(source, found, "sum", shape, [axis == len(shape) - 1 for axis in range(len(shape))])
    return found


def _declining(make: Callable[[KernelCall], Any]) -> Callable[[KernelCall], Any]:
    """What is no floating-point number, or has no loops, is left to the reference."""

    def made(call: KernelCall) -> object:
        try:
            return make(call) if floating(call) else None
        except NoKernelError:
            return None

    return made


@_declining
def density(call: KernelCall) -> object:
    """Of each sample; what samples share is upcast, so that everything is computed in float64."""
    op: Any = call.op
    p: Any = call.params
    rank = len(call.inputs[0].shape)
    made = Composite(call)
    given = [0, *(_wide(made, i, _shared(spec.shape, rank)) for i, spec in enumerate(call.inputs) if i)]
    made.evaluate(_value(type(op).log_density, len(given), p.is_log), given, [made.output(0)])
    return made.plan()


@_declining
def backward_density(call: KernelCall) -> object:
    """Of each sample in its own shape; those of parameters are summed over what shared them."""
    forward: Any = call.op.backward_of
    p: Any = call.params
    shape = call.inputs[1].shape
    made = Composite(call)
    shared = [_wide(made, i, _shared(spec.shape, len(shape))) for i, spec in enumerate(call.inputs) if i > 1]
    parts = [made.temporary(shape, _DOUBLE) for _ in shared]
    by_sample = not forward.discrete
    expression = _slopes(type(forward).log_density, len(shared) + 1, p.is_log, by_sample)
    made.evaluate(expression, [0, 1, *shared], [made.output(0), *parts] if by_sample else parts)
    if not by_sample:
        made.evaluate(traced(_nothing, 1), [1], [made.output(0)])
    for i, part in enumerate(parts):
        batch = len(call.inputs[2 + i].shape)
        made.reduce(part, made.output(1 + i), "sum", shape, [axis >= batch for axis in range(len(shape))])
    return made.plan()


def _nothing(x: Any) -> Any:
    return X.where(x == x, 0.0, 0.0)


# ---- Dirichlet: a sum over the last axis, and the normalisation of the parameter's sum ----


def _log_total(total: Any, alpha: Any) -> Any:
    return total + X.gammaln(alpha)


def _total(total: Any, alpha: Any) -> Any:
    return X.exp(_log_total(total, alpha))


def _times_total(head: Any, total: Any, alpha: Any) -> Any:
    return head * _total(total, alpha)


class _Rows:
    """The sums that a Dirichlet density is made of; `first` is the input that holds samples."""

    def __init__(self, call: KernelCall, log_density: Callable[..., Any], first: int) -> None:
        self.made, self.shape = Composite(call), call.inputs[first].shape
        spread = _shared(call.inputs[first + 1].shape, len(self.shape), 1)
        self.alpha = _wide(self.made, first + 1, spread)
        part = self.made.temporary(self.shape, _DOUBLE)
        self.made.evaluate(_value(log_density, 2, True), [first, self.alpha], [part])
        self.total = _last(self.made, part, self.shape)
        self.concentration = _last(self.made, self.alpha, spread)
        self.rows = (*self.shape[:-1], 1)


@_declining
def dirichlet(call: KernelCall) -> object:
    """Of each row of samples."""
    op: Any = call.op
    p: Any = call.params
    rows = _Rows(call, type(op).log_density, 0)
    made, out = rows.made, call.outputs[0].shape
    shapes = [out, made.shape_of(rows.concentration)[:-1]]
    value = traced(_log_total if p.is_log else _total, 2)
    made.evaluate(value, [rows.total, rows.concentration], [made.output(0)], shapes=shapes)
    return made.plan()


@cache
def _row_slopes(log_density: Callable[..., Any]) -> Expression:
    def slopes(g: Any, x: Any, alpha: Any, concentration: Any) -> Sequence[Any]:
        by_sample, by_alpha = _derived(log_density, g, [x, alpha])
        return by_sample, by_alpha + g * X.digamma(concentration)

    return X.trace(slopes, 4)


@_declining
def backward_dirichlet(call: KernelCall) -> object:
    """Of each element of samples; that of the parameter is summed over what shared it."""
    op: Any = call.op
    p: Any = call.params
    log_density = type(op.forward).log_density
    rows = _Rows(call, log_density, 1)
    made, rank = rows.made, len(rows.shape)
    head = _wide(made, 0, rows.rows)
    if not p.is_log:
        scaled = made.temporary(rows.rows, _DOUBLE)
        made.evaluate(traced(_times_total, 3), [head, rows.total, rows.concentration], [scaled])
        head = scaled
    part = made.temporary(rows.shape, _DOUBLE)
    given = [head, 1, rows.alpha, rows.concentration]
    made.evaluate(_row_slopes(log_density), given, [made.output(0), part])
    batch = len(call.inputs[2].shape) - 1
    made.reduce(part, made.output(1), "sum", rows.shape, [batch <= axis < rank - 1 for axis in range(rank)])
    return made.plan()
