# SPDX-License-Identifier: Apache-2.0
"""Elements repeated, or written anew, on a GPU; and the same elements in another shape."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any

from mx_core import expression as X
from mx_core.expression import Expression
from mx_core.kernels import TensorSpec
from mx_operators_cuda import elementwise

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall


def copy(call: KernelCall) -> Any:
    """Reshapes: the elements in their order."""
    flat = [TensorSpec((prod(spec.shape),), spec.dtype) for spec in (call.inputs[0], call.outputs[0])]
    return elementwise.plan(
        call, elementwise.identity(), flat[:1], flat[1:], n_scalars=len(call.params.scalars)
    )


def broadcast(call: KernelCall) -> Any:
    """Axes of extent 1 repeated."""
    return elementwise.plan(call, elementwise.identity(), call.inputs[:1], call.outputs)


@cache
def _choice() -> Expression:
    return X.trace(X.where, 3)


def where(call: KernelCall) -> Any:
    """x where the condition, or the row's condition, is non-zero, else y."""
    condition, x, y = call.inputs
    if condition.dtype != x.dtype and x.dtype not in (0, 1, 2, 12):
        return None  # all inputs share one compute type, which has to hold x and y exactly
    if len(condition.shape) != len(x.shape):
        rows = (*condition.shape, *(1,) * (len(x.shape) - 1))
        condition = TensorSpec(rows, condition.dtype)
    return elementwise.plan(call, _choice(), [condition, x, y], call.outputs)


def _constant(number: float) -> Callable[[KernelCall], Any]:
    def make(call: KernelCall) -> Any:
        return elementwise.plan(call, Expression(0, 0, (number,), (), (0,)), [], call.outputs)

    return make


zeros, ones = _constant(0.0), _constant(1.0)


def full(call: KernelCall) -> Any:
    """One run-time number everywhere."""
    return elementwise.plan(call, Expression(0, 1, (), (), (0,)), [], call.outputs)
