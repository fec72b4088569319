# SPDX-License-Identifier: Apache-2.0
"""Elements by index: take, pick, batch_take, one_hot, gather_nd, scatter_nd, where, diag."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from mx_core import dtypes
from mx_core.errors import IndexOutOfBoundsError
from mx_core.operator import OperatorProperty, Shape, opt, param, required
from mx_core.operator.property import ReferenceContext
from mx_operators.array.join import checked_axis
from mx_operators.backward import BackwardOfData
from mx_operators.nn.base import wide


@param
class TakeParam:
    """Axis, and what happens to indices outside it."""

    axis: int = opt(0, "the axis indexed")
    mode: str = opt(
        "clip", "indices outside are limited, wrapped, or an error", choices=("clip", "raise", "wrap")
    )


def _integers(indices: Any) -> Any:
    """As int64; what is above it becomes its largest value."""
    if indices.dtype.kind not in "iub":
        return np.nan_to_num(indices.astype(np.float64)).astype(np.int64)
    if indices.dtype == np.uint64:
        indices = np.minimum(indices, np.uint64(np.iinfo(np.int64).max))
    return indices.astype(np.int64)


def bounded(indices: Any, extent: int, mode: str, op: str) -> Any:
    """Integer indices inside 0 … extent − 1 by mode."""
    index = np.asarray(indices)
    if index.dtype == np.uint64 and mode == "wrap":
        return (index % np.uint64(max(extent, 1))).astype(np.int64)
    index = _integers(index)
    if extent == 0 and index.size:
        raise IndexOutOfBoundsError(f"[{op}] cannot take {index.size} elements of an axis of extent 0")
    if mode == "clip":
        return np.clip(index, 0, max(extent - 1, 0))
    if mode == "wrap":
        return index % max(extent, 1)
    wrong = (index < -extent) | (index >= extent)
    if wrong.any():
        raise IndexOutOfBoundsError(
            f"[{op}] index {int(index[wrong][0])} is out of bounds for extent {extent}"
        )
    return index % max(extent, 1)


def _label_type(t: Any, name: str) -> None:
    if t.get(name) is None:
        t.assign(name, "float32")


class Take(OperatorProperty):
    """Slices of a along an axis: a (A…, E, B…) and indices (I…) give (A…, I…, B…)."""

    name = "take"
    Param = TakeParam
    arguments = ("a", "indices")

    def infer_shape(self, p: Any, s: Any) -> None:
        """Forward."""
        a, indices = s.get("a"), s.get("indices")
        if a is not None and indices is not None:
            axis = checked_axis(p.axis, len(a), s)
            s.assign("output", (*a[:axis], *indices, *a[axis + 1 :]))

    def infer_type(self, p: Any, t: Any) -> None:
        """Output as a; indices of any type."""
        t.unify(["a", "output"])
        _label_type(t, "indices")

    def gradient(self, p: Any, g: Any) -> Any:
        """Added up; only the shape of a is needed."""
        return (g.op("_backward_take", (g.out_grad(), g.input(0), g.input(1)), params=p)[0], None)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardTake(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """NumPy's take."""
        a, indices = inputs
        return (np.take(a, bounded(indices, a.shape[p.axis], p.mode, self.name), p.axis),)


class BackwardTake(OperatorProperty):
    """Gradient of take with respect to a."""

    name = "_backward_take"
    Param = TakeParam
    arguments = ("out_grad", "a", "indices")
    results = ("a_grad",)
    shape_only_inputs = frozenset((1,))

    def infer_shape(self, p: Any, s: Any) -> None:
        """As a."""
        s.unify(["a", "a_grad"])

    def infer_type(self, p: Any, t: Any) -> None:
        """As out_grad."""
        t.unify(["out_grad", "a", "a_grad"])

    def gradient(self, p: Any, g: Any) -> Any:
        """Taken again."""
        return g.op("take", (g.out_grad(), g.input(2)), params=p)[0], None, None

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Scatter-add along the axis."""
        g, a, indices = inputs
        axis = p.axis % a.ndim
        index = bounded(indices, a.shape[axis], p.mode, self.name).ravel()
        n = indices.ndim
        heads = np.moveaxis(wide(g), range(axis, axis + n), range(n))
        heads = heads.reshape(index.size, *heads.shape[n:])
        out = np.zeros((a.shape[axis], *np.delete(a.shape, axis)), heads.dtype)
        np.add.at(out, index, heads)
        return (np.moveaxis(out, 0, axis).astype(g.dtype),)


@param
class PickParam:
    """Axis, shape, mode."""

    axis: int | None = opt(-1, "the axis indexed; None: of the flattened array")
    keepdims: bool = opt(False, "keep the axis with extent 1")
    mode: str = opt("clip", "indices outside are limited or wrapped", choices=("clip", "wrap"))


class Pick(OperatorProperty):
    """One element per row: data (…, E, …) and index (…) give (…); of one row, (1,)."""

    name = "pick"
    aliases = ("choose_element_0index",)
    Param = PickParam
    arguments = ("data", "index")

    def infer_shape(self, p: Any, s: Any) -> None:
        """Forward; the index's shape follows from data."""
        data = s.get("data")
        if data is None:
            return
        if p.axis is None:
            index = s.get("index")
            s.assign("output", index)
            return
        axis = checked_axis(p.axis, len(data), s)
        dropped, kept = data[:axis] + data[axis + 1 :] or (1,), (*data[:axis], 1, *data[axis + 1 :])
        s.assign("output", kept if p.keepdims else dropped)
        index = s.get("index")
        if index is None or len(index) != len(data):
            s.assign("index", dropped)
        else:
            s.assign("index", kept)

    def infer_type(self, p: Any, t: Any) -> None:
        """Output as data; index of any type."""
        t.unify(["data", "output"])
        _label_type(t, "index")

    def gradient(self, p: Any, g: Any) -> Any:
        """Written where it was picked; only the shape of data is needed."""
        return (g.op("_backward_pick", (g.out_grad(), g.input(0), g.input(1)), params=p)[0], None)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardPick(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """NumPy's take_along_axis."""
        data, index = inputs
        if p.axis is None:
            flat = data.ravel()
            return (flat[bounded(index, flat.size, p.mode, self.name)],)
        where = pick_index(data.shape, index, p, self.name)
        out = np.take_along_axis(data, where, p.axis)
        return (out if p.keepdims or out.ndim == 1 else out.squeeze(p.axis),)


def pick_index(shape: tuple[int, ...], index: Any, p: Any, op: str) -> Any:
    """Indices shaped for take_along_axis."""
    where = bounded(index, shape[p.axis], p.mode, op)
    return where.reshape([1 if i == p.axis % len(shape) else e for i, e in enumerate(shape)])


class BackwardPick(OperatorProperty):
    """Gradient of pick with respect to data."""

    name = "_backward_pick"
    Param = PickParam
    arguments = ("out_grad", "data", "index")
    results = ("data_grad",)
    shape_only_inputs = frozenset((1,))

    def gradient(self, p: Any, g: Any) -> Any:
        """Picked again."""
        return g.op("pick", (g.out_grad(), g.input(2)), params=p)[0], None, None

    def infer_shape(self, p: Any, s: Any) -> None:
        """As data."""
        s.unify(["data", "data_grad"])

    def infer_type(self, p: Any, t: Any) -> None:
        """As out_grad."""
        t.unify(["out_grad", "data", "data_grad"])

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """NumPy's put_along_axis."""
        g, data, index = inputs
        if p.axis is None:
            total = np.zeros(data.shape, wide(g).dtype)
            np.add.at(total.reshape(-1), bounded(index, total.size, p.mode, self.name), wide(g))
            return (total.astype(g.dtype),)
        out = np.zeros(data.shape, g.dtype)
        where = pick_index(data.shape, index, p, self.name)
        np.put_along_axis(out, where, g.reshape(where.shape), p.axis)
        return (out,)


class BatchTake(OperatorProperty):
    """a[i, indices[i]]: a (N, E) and indices (N,) give (N,)."""

    name = "batch_take"
    arguments = ("a", "indices")

    def infer_shape(self, p: Any, s: Any) -> None:
        """Forward."""
        a = s.get("a")
        if a is not None:
            if len(a) != 2:
                raise s.error(f"a: expected 2 dimensions, got {a}")
            s.assign("indices", a[:1])
            s.assign("output", a[:1])

    def infer_type(self, p: Any, t: Any) -> None:
        """Output as a."""
        t.unify(["a", "output"])
        if t.get("indices") is None:
            t.assign("indices", "int32")

    def gradient(self, p: Any, g: Any) -> Any:
        """As that of pick on axis 1."""
        kept = (g.out_grad(), g.input(0), g.input(1))
        return (g.op("_backward_pick", kept, axis=1)[0], None)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Fancy indexing."""
        a, indices = inputs
        return (a[np.arange(a.shape[0]), bounded(indices, a.shape[1], "clip", self.name)],)


@param
class OneHotParam:
    """Classes and values."""

    depth: int = required("extent of the new axis", lower=0)
    on_value: float = opt(1.0, "where the index points", runtime=True)
    off_value: float = opt(0.0, "elsewhere", runtime=True)
    dtype: str = opt("float32", "type of the result")


class OneHot(OperatorProperty):
    """indices (…) give (…, depth): on_value at the index, off_value elsewhere; outside, nowhere."""

    name = "one_hot"
    Param = OneHotParam
    arguments = ("indices",)

    def infer_shape(self, p: Any, s: Any) -> None:
        """A new last axis."""
        indices = s.get("indices")
        if indices is not None:
            s.assign("output", (*indices, p.depth))

    def infer_type(self, p: Any, t: Any) -> None:
        """From the parameter."""
        t.assign("output", p.dtype)
        _label_type(t, "indices")

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """A comparison with 0 … depth − 1."""
        index = _integers(np.asarray(inputs[0]))
        hit = index[..., None] == np.arange(p.depth)
        return (np.where(hit, p.on_value, p.off_value).astype(dtypes.numpy_dtype(dtypes.code(p.dtype))),)


def nd_index(indices: Any, shape: Sequence[int], op: str) -> tuple[Any, ...]:
    """A tuple of index arrays from (M, …) indices, checked."""
    index = _integers(np.asarray(indices))
    for axis, (row, extent) in enumerate(zip(index, shape, strict=False)):
        wrong = (row < -extent) | (row >= extent)
        if wrong.any():
            raise IndexOutOfBoundsError(
                f"[{op}] index {int(row[wrong][0])} is out of bounds for axis {axis} with extent {extent}"
            )
    return tuple(index)


class GatherND(OperatorProperty):
    """data[indices[0], indices[1], …]: indices (M, I…) of data (S0 … SM−1, R…) give (I…, R…)."""

    name = "gather_nd"
    arguments = ("data", "indices")

    def infer_shape(self, p: Any, s: Any) -> None:
        """Forward."""
        data, indices = s.get("data"), s.get("indices")
        if data is None or indices is None or not indices or indices[0] < 0:
            return
        if indices[0] > len(data):
            raise s.error(f"indices {indices} index {indices[0]} axes, data {data} has {len(data)}")
        s.assign("output", (*indices[1:], *data[indices[0] :]))

    def infer_type(self, p: Any, t: Any) -> None:
        """Output as data."""
        t.unify(["data", "output"])
        _label_type(t, "indices")

    def gradient(self, p: Any, g: Any) -> Any:
        """Added up; only the shape of data is needed."""
        return (g.op("_backward_gather_nd", (g.out_grad(), g.input(0), g.input(1)))[0], None)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardGatherND(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Fancy indexing; without an axis to index, data everywhere."""
        data, indices = inputs
        picked = data[nd_index(indices, data.shape, self.name)]
        return (np.broadcast_to(picked, (*indices.shape[1:], *data.shape[len(indices) :])).copy(),)


class BackwardGatherND(OperatorProperty):
    """Gradient of gather_nd with respect to data."""

    name = "_backward_gather_nd"
    arguments = ("out_grad", "data", "indices")
    results = ("data_grad",)
    shape_only_inputs = frozenset((1,))

    def gradient(self, p: Any, g: Any) -> Any:
        """Gathered again."""
        return g.op("gather_nd", (g.out_grad(), g.input(2)))[0], None, None

    def infer_shape(self, p: Any, s: Any) -> None:
        """As data."""
        s.unify(["data", "data_grad"])

    def infer_type(self, p: Any, t: Any) -> None:
        """As out_grad."""
        t.unify(["out_grad", "data", "data_grad"])

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Scatter-add."""
        heads = wide(inputs[0])
        out = np.zeros(inputs[1].shape, heads.dtype)
        np.add.at(out, nd_index(inputs[2], out.shape, self.name), heads)
        return (out.astype(inputs[0].dtype),)


@param
class ScatterNDParam:
    """Target."""

    shape: Shape = required("shape of the result", lower=0)


class ScatterND(OperatorProperty):
    """Zeros of `shape` with data written at indices; of equal indices the last one counts."""

    name = "scatter_nd"
    Param = ScatterNDParam
    arguments = ("data", "indices")

    def infer_shape(self, p: Any, s: Any) -> None:
        """From the parameter."""
        s.assign("output", p.shape)
        indices = s.get("indices")
        if indices is not None and indices and indices[0] >= 0:
            if indices[0] > len(p.shape):
                raise s.error(f"indices {indices} index {indices[0]} axes of shape {p.shape}")
            s.assign("data", (*indices[1:], *p.shape[indices[0] :]))

    def infer_type(self, p: Any, t: Any) -> None:
        """Output as data."""
        t.unify(["data", "output"])
        _label_type(t, "indices")

    def gradient(self, p: Any, g: Any) -> Any:
        """Gathered."""
        return (g.op("gather_nd", (g.out_grad(), g.input(1)))[0], None)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """An assignment."""
        out = np.zeros(p.shape, inputs[0].dtype)
        out[nd_index(inputs[1], p.shape, self.name)] = inputs[0]
        return (out,)


class ScatterSetND(OperatorProperty):
    """lhs with rhs written at indices; of equal indices the last one counts."""

    name = "_scatter_set_nd"
    Param = ScatterNDParam
    arguments = ("lhs", "rhs", "indices")

    def infer_shape(self, p: Any, s: Any) -> None:
        """From the parameter, which is the shape of lhs."""
        s.unify(["lhs", "output"])
        s.assign("output", p.shape)
        indices = s.get("indices")
        if indices is not None and indices and indices[0] >= 0:
            if indices[0] > len(p.shape):
                raise s.error(f"indices {indices} index {indices[0]} axes of shape {p.shape}")
            s.assign("rhs", (*indices[1:], *p.shape[indices[0] :]))

    def infer_type(self, p: Any, t: Any) -> None:
        """Indices may be of any type."""
        t.unify(["lhs", "rhs", "output"])
        _label_type(t, "indices")

    def inplace(self, p: Any) -> tuple[tuple[int, int], ...]:
        """The rest stays."""
        return ((0, 0),)

    def gradient(self, p: Any, g: Any) -> Any:
        """Zero at the indices for lhs; for rhs what is there, of equal indices to each."""
        zeros = g.op("zeros_like", (g.input(1),))[0]
        rest = g.op("_scatter_set_nd", (g.out_grad(), zeros, g.input(2)), params=p)
        return (rest[0], g.op("gather_nd", (g.out_grad(), g.input(2)))[0], None)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """An assignment."""
        out = inputs[0].copy()
        out[nd_index(inputs[2], p.shape, self.name)] = inputs[1]
        return (out,)


class Where(OperatorProperty):
    """x where condition is non-zero, else y; condition of the same shape, or (N,) for rows."""

    name = "where"
    arguments = ("condition", "x", "y")

    def infer_shape(self, p: Any, s: Any) -> None:
        """x, y and output are equal."""
        s.unify(["x", "y", "output"])
        condition, x = s.get("condition"), s.get("x")
        if x is None:
            s.assign("output", condition if condition is not None and len(condition) > 1 else None)
        elif condition is None or len(condition) == len(x):
            s.assign("condition", x)
        else:
            s.assign("condition", x[:1])

    def infer_type(self, p: Any, t: Any) -> None:
        """condition of any type."""
        t.unify(["x", "y", "output"])
        if t.get("condition") is None:
            t.assign("condition", t.get("x"))

    def gradient(self, p: Any, g: Any) -> Any:
        """out_grad where chosen."""
        zero = g.op("zeros_like", (g.out_grad(),))[0]
        return (
            None,
            g.op("where", (g.input(0), g.out_grad(), zero))[0],
            g.op("where", (g.input(0), zero, g.out_grad()))[0],
        )

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """NumPy's where."""
        condition, x, y = inputs
        if condition.ndim != x.ndim:
            condition = condition.reshape(-1, *(1,) * (x.ndim - 1))
        return (np.where(condition != 0, x, y),)


@param
class DiagParam:
    """Which diagonal, of which axes."""

    k: int = opt(0, "which diagonal; positive is above the main one")
    axis1: int = opt(0, "first axis")
    axis2: int = opt(1, "second axis")


class Diag(OperatorProperty):
    """A diagonal of the last two (or given) axes; of a vector, the matrix with that diagonal."""

    name = "diag"
    Param = DiagParam

    def infer_shape(self, p: Any, s: Any) -> None:
        """Forward."""
        data = s.known("data")
        if data is None:
            return
        if len(data) == 1:
            n = data[0] + abs(p.k)
            s.assign("output", (n, n))
            return
        a, b = checked_axis(p.axis1, len(data), s, "axis1"), checked_axis(p.axis2, len(data), s, "axis2")
        if a == b:
            raise s.error(f"axis1 and axis2 are both {a}")
        rows, columns = data[a] + min(p.k, 0), data[b] - max(p.k, 0)
        rest = tuple(e for i, e in enumerate(data) if i not in (a, b))
        s.assign("output", (*rest, max(min(rows, columns), 0)))

    def gradient(self, p: Any, g: Any) -> Any:
        """Written on the diagonal."""
        return g.op("_backward_diag", (g.out_grad(), g.input(0)), params=p)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardDiag(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """NumPy's diag and diagonal."""
        x = inputs[0]
        if x.ndim == 1:
            return (np.diag(x, p.k),)
        most = max(x.shape)  # far beyond the array NumPy's pointers overflow
        return (np.diagonal(x, min(max(p.k, -most), most), p.axis1, p.axis2).copy(),)


class BackwardDiag(BackwardOfData):
    """Gradient of diag."""

    name = "_backward_diag"
    Param = DiagParam

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """The diagonal of the gradient, or the gradient on a diagonal."""
        g, data = inputs
        if data.ndim == 1:
            return (np.diagonal(g, p.k).copy(),)
        out = np.zeros(data.shape, g.dtype)
        view = np.moveaxis(out, (p.axis1, p.axis2), (-2, -1))
        n = g.shape[-1]
        rows, columns = np.arange(n) + max(-p.k, 0), np.arange(n) + max(p.k, 0)
        view[..., rows, columns] = g
        return (out,)


class ShapeArray(OperatorProperty):
    """The shape, as a vector of int64."""

    name = "shape_array"
    shape_only_inputs = frozenset((0,))

    def infer_shape(self, p: Any, s: Any) -> None:
        """One element per axis."""
        data = s.get("data")
        if data is not None:
            s.assign("output", (len(data),))

    def infer_type(self, p: Any, t: Any) -> None:
        """int64."""
        t.assign("output", "int64")

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """The shape."""
        return (np.array(inputs[0].shape, np.int64),)


class SizeArray(OperatorProperty):
    """The number of elements, as a vector of one int64."""

    name = "size_array"
    shape_only_inputs = frozenset((0,))

    def infer_shape(self, p: Any, s: Any) -> None:
        """One element."""
        s.assign("output", (1,))

    def infer_type(self, p: Any, t: Any) -> None:
        """int64."""
        t.assign("output", "int64")

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """The product of the shape."""
        return (np.array([prod(inputs[0].shape)], np.int64),)


OPERATORS: tuple[type[OperatorProperty], ...] = (
    Take, Pick, BatchTake, OneHot, GatherND, ScatterND, ScatterSetND, Where, Diag, ShapeArray, SizeArray,
)  # fmt: skip
