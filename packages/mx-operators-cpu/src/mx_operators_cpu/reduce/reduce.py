# SPDX-License-Identifier: Apache-2.0
"""Reductions over axes, their gradients, positions of extrema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from typing import Any

from mx_core import dtypes
from mx_core import expression as X
from mx_core.errors import NoKernelError
from mx_core.expression import Expression
from mx_core.kernels import KernelCall
from mx_operators_cpu.indexing.strided_copy import tile_shapes
from mx_operators_cpu.library import native
from mx_operators_cpu.reduce.axes import kept_shape, reduced_axes
from mx_operators_cpu.signature import FLOATS, Tensor, plain, tensors

_BOOL, _UINT64 = dtypes.code("bool"), dtypes.code("uint64")
_OPS = {"sum": "sum", "mean": "sum", "prod": "prod", "max": "max", "min": "min",
        "nansum": "nansum", "nanprod": "nanprod"}  # fmt: skip


def _plan(call: KernelCall, op: str, reduced: Sequence[bool], shape: Sequence[int], **more: bool) -> object:
    if not plain(*call.inputs, *call.outputs):
        return None
    inputs = tensors(call.inputs)
    inputs[0] = (tuple(shape), inputs[0][1])
    return native.reduce_plan(inputs, tensors(call.outputs), op, list(reduced), **more)


def reduce(call: KernelCall) -> object:
    """sum, mean, prod, max, min, nansum, nanprod."""
    shape, dtype = call.inputs[0].shape, call.inputs[0].dtype
    name = call.op.name
    axes = reduced_axes(call.params, len(shape))
    if name in ("max", "min") and (
        dtype == _UINT64 or (dtype not in FLOATS and prod([shape[axis] for axis in axes]) == 0)
    ):
        return None  # int64 loops do not hold the numbers
    if name == "mean" and dtype in (_UINT64, _BOOL):
        return None
    return _plan(call, _OPS[name], [axis in axes for axis in range(len(shape))], shape, mean=name == "mean")


def norm(call: KernelCall) -> object:
    """L1 or L2 norm."""
    p: Any = call.params
    shape = call.inputs[0].shape
    if call.inputs[0].dtype not in FLOATS:
        return None
    axes = reduced_axes(p, len(shape))
    op, root = ("sum_abs", False) if p.ord == 1 else ("sum_square", True)
    return _plan(call, op, [axis in axes for axis in range(len(shape))], shape, root=root)


def unbroadcast(call: KernelCall) -> object:
    """A gradient summed back to the shape that was broadcast."""
    shape, like = call.inputs[0].shape, call.outputs[0].shape
    lead = len(shape) - len(like)
    reduced = [True] * lead + [size == 1 and shape[lead + axis] != 1 for axis, size in enumerate(like)]
    return _plan(call, "sum", reduced, shape)


def backward_repeat(call: KernelCall) -> object:
    """Sums of runs."""
    p: Any = call.params
    shape = call.outputs[0].shape
    axis = len(shape) - 1 if p.axis is None else p.axis % len(shape)
    view = (*shape[: axis + 1], p.repeats, *shape[axis + 1 :])
    return _plan(call, "sum", [i == axis + 1 for i in range(len(view))], view)


def backward_tile(call: KernelCall) -> object:
    """Sums of copies."""
    p: Any = call.params
    reps, shape = tile_shapes(call.outputs[0].shape, p.reps)
    view = [size for pair in zip(reps, shape, strict=True) for size in pair]
    return _plan(call, "sum", [i % 2 == 0 for i in range(len(view))], view)


# ---- gradients: expressions in which the reduced axes are broadcast ----


def _share(g: Any, x: Any, y: Any, name: str) -> Any:
    if name == "_backward_extremum":
        return X.where(x == y, g, 0.0)
    if name == "_backward_prod":
        return g * (y / x)
    if name == "_backward_nansum":
        return X.where(X.isnan(x), 0.0, g)
    return X.where(X.isnan(x), 0.0, g * (y / x))


def _norm_share(g: Any, x: Any, y: Any, order: int) -> Any:
    return g * (X.sign(x) if order == 1 else x / X.where(y == 0, 1.0, y))


@cache
def _traced(function: Callable[..., Any], choice: str | int) -> Expression:
    return X.trace(lambda g, x, y: function(g, x, y, choice), 3)


@cache
def _divided(count: int) -> Expression:
    return X.trace(lambda g, data: g / float(count), 2)


def _spread(call: KernelCall, expression: Expression, inputs: list[Tensor]) -> object:
    if not plain(*call.inputs, *call.outputs) or call.outputs[0].dtype not in FLOATS:
        return None
    try:
        return native.expression_plan(expression.serialized, inputs, tensors(call.outputs))
    except NoKernelError:
        return None


def backward_mean(call: KernelCall) -> object:
    """The gradient over the number of elements, repeated; only the shape of data matters."""
    kept = kept_shape(call.params, call.outputs[0].shape)
    count = max(prod(call.outputs[0].shape) // max(prod(kept), 1), 1)
    inputs = [(kept, call.inputs[0].dtype), (call.outputs[0].shape, call.inputs[1].dtype)]
    return _spread(call, _divided(count), inputs)


def backward_from_output(call: KernelCall) -> object:
    """Gradients of max, min, prod, nansum, nanprod."""
    kept = kept_shape(call.params, call.outputs[0].shape)
    (_, g), data, (_, y) = tensors(call.inputs)
    return _spread(call, _traced(_share, call.op.name), [(kept, g), data, (kept, y)])


def backward_norm(call: KernelCall) -> object:
    """Gradient of the L1 or L2 norm."""
    p: Any = call.params
    kept = kept_shape(p, call.outputs[0].shape)
    (_, g), data, (_, y) = tensors(call.inputs)
    return _spread(call, _traced(_norm_share, p.ord), [(kept, g), data, (kept, y)])


# ---- positions ----


def arg(call: KernelCall) -> object:
    """argmax, argmin, argmax_channel."""
    p: Any = call.params
    shape, dtype = call.inputs[0].shape, call.inputs[0].dtype
    axis = 1 if call.op.name == "argmax_channel" else p.axis
    if dtype == _UINT64 or prod(shape) == 0:
        return None
    if axis is None:
        outer, extent, inner = 1, prod(shape), 1
    else:
        axis %= len(shape)
        outer, extent, inner = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    return native.arg_plan(
        call.inputs, call.outputs, outer=outer, extent=extent, inner=inner,
        largest=call.op.name != "argmin",
    )  # fmt: skip
