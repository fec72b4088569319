# SPDX-License-Identifier: Apache-2.0
"""LeakyReLU with a learnt slope; the other activations are elementwise expressions."""

from __future__ import annotations

from math import prod
from typing import Any

from mx_core import expression as X
from mx_core.kernels import KernelCall
from mx_operators_cpu.composite import Composite, traced
from mx_operators_cpu.signature import accumulator, real


def _slopes(call: KernelCall, data: int, gamma: int) -> tuple[int, ...] | None:
    """The shape in which gamma broadcasts over data; None unless it is one slope, or one a channel."""
    shape, count = call.inputs[data].shape, prod(call.inputs[gamma].shape)
    if count == 1:
        return (1,) * len(shape)
    if len(call.inputs[gamma].shape) != 1 or len(shape) < 2 or shape[1] != count:
        return None
    return (1, count, *(1,) * (len(shape) - 2))


def _prelu(x: Any, gamma: Any) -> Any:
    return X.where(x > 0, x, x * gamma)


def _prelu_share(g: Any, x: Any) -> Any:
    return X.where(x > 0, 0.0, g * x)


def prelu(call: KernelCall) -> object:
    """x, times gamma where it is not positive."""
    p: Any = call.params
    if p.act_type != "prelu" or not real(call):
        return None
    slopes = _slopes(call, 0, 1)
    if slopes is None:
        return None
    made = Composite(call)
    made.evaluate(traced(_prelu, 2), [0, 1], [made.output(0)], shapes=[None, slopes])
    return made.plan()


def backward_prelu(call: KernelCall) -> object:
    """Gradients of data and gamma."""
    p: Any = call.params
    if p.act_type != "prelu" or not real(call):
        return None
    slopes, shape = _slopes(call, 1, 2), call.inputs[1].shape
    if slopes is None or prod(shape) == 0:
        return None
    made = Composite(call)
    share = made.temporary(shape, accumulator(call.inputs[1].dtype))
    made.evaluate(traced(_prelu_share, 2), [0, 1], [share])  # first: output 0 may be input 0 or 1
    made.evaluate(
        X.trace(lambda g, x, gamma: X.where(x > 0, g, g * gamma), 3), [0, 1, 2], [made.output(0)],
        shapes=[None, None, slopes],
    )  # fmt: skip
    made.reduce(share, made.output(1), "sum", shape, [slopes[axis] == 1 for axis in range(len(shape))])
    return made.plan()
