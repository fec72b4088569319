# SPDX-License-Identifier: Apache-2.0
"""L2Normalization, and attention scores over the root of their extent."""

from __future__ import annotations

from math import prod, sqrt
from typing import Any

from mx_core import expression as X
from mx_core.kernels import KernelCall
from mx_operators_cpu.composite import Composite, traced
from mx_operators_cpu.signature import accumulator, real


def _reduced(mode: str, rank: int) -> list[bool]:
    axes = {"instance": range(1, rank), "channel": range(1, 2), "spatial": range(2, rank)}[mode]
    return [axis in axes for axis in range(rank)]


def _root(total: Any, eps: Any) -> Any:
    return X.sqrt(total + eps)


def _quotient(x: Any, norm: Any) -> Any:
    return x / norm


def l2_normalization(call: KernelCall) -> object:
    """data over its norm, and the norm."""
    p: Any = call.params
    shape = call.inputs[0].shape
    if not real(call) or prod(shape) == 0:
        return None
    made, dtype = Composite(call), accumulator(call.inputs[0].dtype)
    kept = call.outputs[1].shape
    total, norm = made.temporary(kept, dtype), made.temporary(kept, dtype)
    made.reduce(0, total, "sum_square", shape, _reduced(p.mode, len(shape)))
    root = traced(_root, 1, 1)
    made.evaluate(root, [total], [norm], [p.eps])
    made.evaluate(root, [total], [made.output(1)], [p.eps])
    made.evaluate(traced(_quotient, 2), [0, norm], [made.output(0)])
    return made.plan()


def _product(g: Any, y: Any) -> Any:
    return g * y


def _orthogonal(g: Any, y: Any, along: Any, norm: Any) -> Any:
    return (g - y * along) / norm


def backward_l2_normalization(call: KernelCall) -> object:
    """The part of out_grad that is orthogonal to the output, over the norm."""
    p: Any = call.params
    shape, kept = call.inputs[1].shape, call.inputs[2].shape
    if not real(call) or prod(shape) == 0:
        return None
    made, dtype = Composite(call), accumulator(call.inputs[0].dtype)
    products, along = made.temporary(shape, dtype), made.temporary(kept, dtype)
    made.evaluate(traced(_product, 2), [0, 1], [products])
    made.reduce(products, along, "sum", shape, _reduced(p.mode, len(shape)))
    made.evaluate(traced(_orthogonal, 4), [0, 1, along, 2], [made.output(0)])
    return made.plan()


def _scaled(x: Any, factor: Any) -> Any:
    return x / factor


def div_sqrt_dim(call: KernelCall) -> object:
    """data over the root of its last extent."""
    if not real(call):
        return None
    made = Composite(call)
    made.evaluate(traced(_scaled, 1, 1), [0], [made.output(0)], [sqrt(max(call.inputs[0].shape[-1], 1))])
    return made.plan()
