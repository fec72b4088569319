# SPDX-License-Identifier: Apache-2.0
"""Positions in an array as one number or as one number per axis; ranges shaped like data."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from mx_core.errors import IndexOutOfBoundsError
from mx_core.operator import Array, Arrays, Operator, Params, ReferenceContext, Shape, Shapes, opt, required
from mx_operators.array.join import checked_axis


class RavelParam(Params):
    """The array that is indexed."""

    shape: Shape = required("shape of the array; −1 first: as long as it needs to be", lower=-1)


def _checked_rank(p: RavelParam, s: Shapes) -> int:
    if -1 in p.shape[1:]:
        raise s.error(f"shape: only the first extent may be −1, got {p.shape}")
    return len(p.shape)


def _positions(x: Array, extents: Sequence[int], op: str) -> Array:
    values = np.asarray(x, np.float64)
    limits = np.asarray([2.0**63 if e < 0 else e for e in extents]).reshape(-1, *(1,) * (values.ndim - 1))
    wrong = ~((values >= 0) & (values < limits))
    if wrong.any():
        raise IndexOutOfBoundsError(f"[{op}] index {values[wrong][0]:g} is outside of shape {tuple(extents)}")
    return values.astype(np.int64)


class RavelMultiIndex(Operator[RavelParam]):
    """data (M, …) of positions per axis of `shape` give positions (…) in the flattened array."""

    name = "_ravel_multi_index"
    aliases = ("ravel_multi_index",)
    differentiable = False

    def infer_shape(self, p: RavelParam, s: Shapes) -> None:
        """Without the first axis."""
        data = s.get("data")
        rank = _checked_rank(p, s)
        if data is None:
            return
        if not data or data[0] not in (-1, rank):
            raise s.error(f"data: expected ({len(p.shape)}, …) for shape {p.shape}, got {data}")
        s.assign("output", data[1:])

    def reference(self, p: RavelParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """A sum of positions times strides."""
        strides = [prod(p.shape[i + 1 :]) for i in range(len(p.shape))]
        where = _positions(inputs[0], p.shape, self.name)
        return (np.tensordot(np.array(strides, np.int64), where, 1).astype(inputs[0].dtype),)


class UnravelIndex(Operator[RavelParam]):
    """data (…) of positions in a flattened array give positions (M, …) per axis of `shape`."""

    name = "_unravel_index"
    aliases = ("unravel_index",)
    differentiable = False

    def infer_shape(self, p: RavelParam, s: Shapes) -> None:
        """A new first axis."""
        data, output = s.get("data"), s.get("output")
        rank = _checked_rank(p, s)
        if data is not None:
            s.assign("output", (rank, *data))
        elif output:
            s.assign("data", output[1:])

    def reference(self, p: RavelParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """Quotients by strides, and their remainders."""
        x = inputs[0]
        index = _positions(x.reshape(1, -1), (max(prod(p.shape), -1),), self.name)[0]
        rows = np.empty((len(p.shape), index.size), np.int64)
        for axis in range(len(p.shape) - 1, 0, -1):
            index, rows[axis] = np.divmod(index, p.shape[axis])
        rows[:1] = index
        return (rows.reshape(len(p.shape), *x.shape).astype(x.dtype),)


class ArangeLikeParam(Params):
    """Start, step, repeats, axis."""

    start: float = opt(0.0, "first value")
    step: float = opt(1.0, "difference of values")
    repeat: int = opt(1, "how often each value occurs", lower=1)
    ctx: str = opt("", "context of the result, `cpu(0)`")
    axis: int | None = opt(None, "the axis whose extent is taken; None: all of data, with its shape")


class ArangeLike(Operator[ArangeLikeParam]):
    """start, start + step, …, each `repeat` times: as many as data has elements, or along an axis."""

    name = "_contrib_arange_like"
    shape_only = ("data",)
    differentiable = False

    def infer_shape(self, p: ArangeLikeParam, s: Shapes) -> None:
        """As data, or one axis of it."""
        if p.axis is None:
            s.unify(["data", "output"])
            return
        data = s.get("data")
        if data is not None:
            s.assign("output", (data[checked_axis(p.axis, len(data), s)],))

    def reference(self, p: ArangeLikeParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        x = inputs[0]
        shape = x.shape if p.axis is None else (x.shape[p.axis],)
        values = p.start + p.step * (np.arange(prod(shape)) // p.repeat)
        return (values.reshape(shape).astype(x.dtype),)
