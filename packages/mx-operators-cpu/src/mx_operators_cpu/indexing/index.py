# SPDX-License-Identifier: Apache-2.0
"""Elements by index, and choice by condition."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

from mx_core import expression as X
from mx_core.errors import NoKernelError
from mx_core.expression import Expression
from mx_core.kernels import KernelCall
from mx_operators_cpu.library import native
from mx_operators_cpu.signature import plain, tensors

_EXACT_IN_FLOAT64 = frozenset((0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 12))  # all but the 64-bit integers


def _plan(call: KernelCall, action: str, **options: Any) -> object:
    if not plain(*call.inputs, *call.outputs):
        return None
    return native.index_plan(
        tensors(call.inputs), tensors(call.outputs), op=call.op.name, action=action, **options
    )


def take(call: KernelCall) -> object:
    """Slices along an axis."""
    p: Any = call.params
    a, indices = call.inputs[0].shape, call.inputs[1].shape
    axis = p.axis % len(a)
    return _plan(
        call, "gather", bounds=p.mode, values=0, indices=1, extents=(a[axis],),
        outer=prod(a[:axis]), n=prod(indices), inner=prod(a[axis + 1 :]),
    )  # fmt: skip


def backward_take(call: KernelCall) -> object:
    """The gradient's slices added up where they came from."""
    p: Any = call.params
    a, indices = call.outputs[0].shape, call.inputs[2].shape
    axis = p.axis % len(a)
    return _plan(
        call, "add", bounds=p.mode, values=0, indices=2, extents=(a[axis],),
        outer=prod(a[:axis]), n=prod(indices), inner=prod(a[axis + 1 :]),
    )  # fmt: skip


def embedding(call: KernelCall) -> object:
    """Rows of the weight."""
    p: Any = call.params
    return _plan(
        call, "gather", bounds="clip", values=1, indices=0, extents=(p.input_dim,),
        outer=1, n=prod(call.inputs[0].shape), inner=p.output_dim,
    )  # fmt: skip


def backward_embedding(call: KernelCall) -> object:
    """Rows of the gradient added up."""
    p: Any = call.params
    return _plan(
        call, "add", bounds="clip", values=0, indices=1, extents=(p.input_dim,),
        outer=1, n=prod(call.inputs[1].shape), inner=p.output_dim,
    )  # fmt: skip


def _along(shape: tuple[int, ...], axis: int | None) -> tuple[int, int]:
    """Extent and inner size of the axis an element is picked from."""
    if axis is None:
        return prod(shape), 1
    return shape[axis], prod(shape[axis % len(shape) + 1 :])


def pick(call: KernelCall) -> object:
    """One element per row; batch_take is the case of axis 1."""
    p: Any = call.params
    axis = 1 if call.op.name == "batch_take" else p.axis
    mode = "clip" if call.op.name == "batch_take" else p.mode
    extent, inner = _along(call.inputs[0].shape, axis)
    return _plan(
        call, "gather", bounds=mode, values=0, indices=1, extents=(extent,), outer=1,
        n=prod(call.inputs[1].shape), inner=inner, per_element=axis is not None,
    )  # fmt: skip


def backward_pick(call: KernelCall) -> object:
    """The gradient where an element was picked."""
    p: Any = call.params
    extent, inner = _along(call.outputs[0].shape, p.axis)
    return _plan(
        call, "add", bounds=p.mode, values=0, indices=2, extents=(extent,), outer=1,
        n=prod(call.inputs[2].shape), inner=inner, per_element=p.axis is not None,
    )  # fmt: skip


def one_hot(call: KernelCall) -> object:
    """Rows with one element set."""
    p: Any = call.params
    if not plain(*call.inputs, *call.outputs):
        return None
    return native.one_hot_plan(tensors(call.inputs), tensors(call.outputs), p.depth)


def _nd(call: KernelCall, action: str, table: tuple[int, ...], values: int, indices: int) -> object:
    m, *rest = call.inputs[indices].shape
    return _plan(
        call, action, bounds="raise", values=values, indices=indices, extents=table[:m],
        outer=1, n=prod(rest), inner=prod(table[m:]),
    )  # fmt: skip


def gather_nd(call: KernelCall) -> object:
    """Elements or slices by several indices."""
    return _nd(call, "gather", call.inputs[0].shape, 0, 1)


def backward_gather_nd(call: KernelCall) -> object:
    """The gradient added up where it came from."""
    return _nd(call, "add", call.outputs[0].shape, 0, 2)


def scatter_nd(call: KernelCall) -> object:
    """Zeros with elements or slices written; the last of equal indices counts."""
    return _nd(call, "set", call.outputs[0].shape, 0, 1)


def scatter_set_nd(call: KernelCall) -> object:
    """Elements or slices of the first input replaced; the last of equal indices counts."""
    return _nd(call, "assign", call.outputs[0].shape, 1, 2)


@cache
def _choice() -> Expression:
    return X.trace(X.where, 3)


def where(call: KernelCall) -> object:
    """x where the condition, or the row's condition, is non-zero, else y."""
    types = {spec.dtype for spec in call.inputs}
    if not plain(*call.inputs, *call.outputs) or (len(types) > 1 and not types <= _EXACT_IN_FLOAT64):
        return None
    inputs = tensors(call.inputs)
    shape, dtype = inputs[0]
    if len(shape) != len(inputs[1][0]):
        inputs[0] = ((*shape, *(1,) * (len(inputs[1][0]) - 1)), dtype)
    try:
        return native.expression_plan(_choice().serialized, inputs, tensors(call.outputs))
    except NoKernelError:
        return None
