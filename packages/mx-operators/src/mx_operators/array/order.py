# SPDX-License-Identifier: Apache-2.0
"""Order: sort, argsort, topk, argmax, argmin, argmax_channel."""

from __future__ import annotations

from math import prod

import numpy as np

from mx_core import dtypes
from mx_core.operator import (
    Array,
    Arrays,
    GradientBuilder,
    Gradients,
    NoParams,
    Operator,
    Params,
    ReferenceContext,
    Shapes,
    Types,
    opt,
)
from mx_operators.array.join import checked_axis


class SortParam(Params):
    """Axis and direction."""

    axis: int | None = opt(-1, "the axis; None: of the flattened array")
    is_ascend: bool = opt(True, "smallest first")


class ArgsortParam(Params):
    """Axis, direction, type."""

    axis: int | None = opt(-1, "the axis; None: of the flattened array")
    is_ascend: bool = opt(True, "smallest first")
    dtype: str = opt("float32", "type of the indices")


class TopkParam(Params):
    """How many, of what, as what."""

    axis: int | None = opt(-1, "the axis; None: of the flattened array")
    k: int = opt(1, "how many; below 1: all")
    ret_typ: str = opt("indices", "what is returned", choices=("both", "indices", "mask", "value"))
    is_ascend: bool = opt(False, "the smallest ones")
    dtype: str = opt("float32", "type of the indices")


class ArgParam(Params):
    """Axis."""

    axis: int | None = opt(None, "the axis; None: of the flattened array")
    keepdims: bool = opt(False, "keep the axis with extent 1")


def order(x: Array, ascending: bool) -> Array:
    """Stable order along the last axis, NaN last."""
    if x.dtype.kind == "V":  # bfloat16
        x = x.astype(np.float32)
    if ascending:
        return np.argsort(x, -1, kind="stable")
    key = -x if x.dtype.kind == "f" else ~x if x.dtype.kind in "iu" else ~x.astype(np.int8)
    return np.argsort(key, -1, kind="stable")


def _axis_last(x: Array, axis: int | None) -> Array:
    return x.reshape(-1) if axis is None else np.moveaxis(x, axis, -1)


def _axis_back(x: Array, axis: int | None) -> Array:
    return x if axis is None else np.moveaxis(x, -1, axis)


class Sort(Operator[SortParam]):
    """Values in order along an axis."""

    name = "sort"
    results = ("output0",)

    def infer_shape(self, p: SortParam, s: Shapes) -> None:
        """As data, or flat."""
        _ordered_shape(p, s, "output0")

    def reference(self, p: SortParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        x = _axis_last(inputs[0], p.axis)
        y = np.take_along_axis(x, order(x, p.is_ascend), -1)
        return (_axis_back(y, p.axis),)

    def backward(self, p: SortParam, out_grad: Array, data: Array) -> Array:
        g, x = _axis_last(out_grad, p.axis), _axis_last(data, p.axis)
        out = np.empty_like(g)
        np.put_along_axis(out, order(x, p.is_ascend), g, -1)
        return _axis_back(out, p.axis).reshape(data.shape)


def _ordered_shape(p: SortParam | ArgsortParam, s: Shapes, output: str = "output") -> None:
    data = s.known("data")
    if p.axis is not None:
        s.unify(["data", output])
        if data is not None:
            checked_axis(p.axis, len(data), s)
    elif data is not None:
        s.assign(output, (int(np.prod(data)),))


class Argsort(Operator[ArgsortParam]):
    """Indices that would sort an axis."""

    name = "argsort"
    differentiable = False

    def infer_shape(self, p: ArgsortParam, s: Shapes) -> None:
        """As data, or flat."""
        _ordered_shape(p, s)

    def infer_type(self, p: ArgsortParam, t: Types) -> None:
        t.assign("output", p.dtype)

    def reference(self, p: ArgsortParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        index = order(_axis_last(inputs[0], p.axis), p.is_ascend)
        return (_axis_back(index, p.axis).astype(dtypes.numpy_dtype(dtypes.code(p.dtype))),)


class Topk(Operator[TopkParam]):
    """The k largest (or smallest) along an axis: indices, values, both, or a 0/1 mask."""

    name = "topk"

    def outputs(self, p: TopkParam) -> tuple[str, ...]:
        """Values and indices with ret_typ both; values keep their name alone."""
        return {"both": ("output0", "output1"), "value": ("output0",)}.get(p.ret_typ, ("output",))

    def infer_shape(self, p: TopkParam, s: Shapes) -> None:
        """k along the axis."""
        data = s.known("data")
        if data is None:
            return
        values = _top_shape(p, data, s)
        for name in self.outputs(p):
            s.assign(name, data if p.ret_typ == "mask" else values)

    def infer_type(self, p: TopkParam, t: Types) -> None:
        """Values as data, indices from the parameter."""
        names = self.outputs(p)
        if p.ret_typ != "indices":
            t.unify(["data", names[0]])
        if p.ret_typ in ("both", "indices"):
            t.assign(names[-1], p.dtype)

    def gradient(self, p: TopkParam, g: GradientBuilder) -> Gradients:
        """Of values, scattered back; indices and masks have none."""
        if p.ret_typ not in ("both", "value"):
            return {}
        return {"data": g.op("_backward_topk", (g.out_grad(), g.input("data")), params=p)[0]}

    def backward_operator(self) -> Operator[TopkParam]:
        return BackwardTopk()

    def reference(self, p: TopkParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """The head of a stable order."""
        x = _axis_last(inputs[0], p.axis)
        index = _head(p, x)
        if p.ret_typ == "mask":
            mask = np.zeros_like(x)
            np.put_along_axis(mask, index, 1, -1)
            return (_axis_back(mask, p.axis).reshape(inputs[0].shape),)
        indices = _axis_back(index, p.axis).astype(dtypes.numpy_dtype(dtypes.code(p.dtype)))
        values = _axis_back(np.take_along_axis(x, index, -1), p.axis)
        return {"indices": (indices,), "value": (values,), "both": (values, indices)}[p.ret_typ]


def _top_shape(p: TopkParam, data: tuple[int, ...], s: Shapes) -> tuple[int, ...]:
    shape = (prod(data),) if p.axis is None else data
    axis = 0 if p.axis is None else checked_axis(p.axis, len(data), s)
    k = p.k if p.k >= 1 else shape[axis]
    if k > shape[axis]:
        raise s.error(f"k: expected at most {shape[axis]} for data {data}, got {p.k}")
    return (*shape[:axis], k, *shape[axis + 1 :])


def _head(p: TopkParam, x: Array) -> Array:
    k = p.k if p.k >= 1 else x.shape[-1]
    return order(x, p.is_ascend)[..., :k]


class BackwardTopk(Operator[TopkParam]):
    """Gradient of the values of topk."""

    name = "_backward_topk"
    arguments = ("out_grad", "data")
    results = ("data_grad",)

    def infer_shape(self, p: TopkParam, s: Shapes) -> None:
        """As data; out_grad as the values."""
        s.unify(["data", "data_grad"])
        data = s.known("data")
        if data is not None:
            s.assign("out_grad", _top_shape(p, data, s))

    def gradient(self, p: TopkParam, g: GradientBuilder) -> Gradients:
        return g.not_differentiable()

    def reference(self, p: TopkParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """Written where the values came from."""
        g, x = _axis_last(inputs[0], p.axis), _axis_last(inputs[1], p.axis)
        out = np.zeros_like(x)
        np.put_along_axis(out, _head(p, x), g, -1)
        return (_axis_back(out, p.axis).reshape(inputs[1].shape),)


class _Arg(Operator[ArgParam]):
    differentiable = False

    def infer_shape(self, p: ArgParam, s: Shapes) -> None:
        """The axis is dropped, or 1; of a flattened array one element stays."""
        data = s.get("data")
        if data is None:
            return
        if p.axis is None:
            if 0 in data:
                raise s.error(f"data: {data} has no elements")
            s.assign("output", (1,) * len(data) if p.keepdims else (1,))
            return
        axis = checked_axis(p.axis, len(data), s)
        if data[axis] == 0:
            raise s.error(f"data: axis {p.axis} of {data} is empty")
        kept = (1,) if p.keepdims else ()
        s.assign("output", (*data[:axis], *kept, *data[axis + 1 :]) or (1,))

    def index(self, x: Array, axis: int) -> Array:
        """The index along an axis."""
        raise NotImplementedError

    def reference(self, p: ArgParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """NumPy's argmax or argmin."""
        x = inputs[0]
        if p.axis is None:
            shape = (1,) * x.ndim if p.keepdims else (1,)
            return (np.asarray(self.index(x.reshape(-1), 0)).reshape(shape).astype(x.dtype),)
        out = self.index(x, p.axis)
        out = np.expand_dims(out, p.axis) if p.keepdims else out
        return (np.atleast_1d(out).astype(x.dtype),)


class Argmax(_Arg):
    """Index of the largest element along an axis, in the type of data."""

    name = "argmax"

    def index(self, x: Array, axis: int) -> Array:
        return x.argmax(axis)


class Argmin(_Arg):
    """Index of the smallest element along an axis, in the type of data."""

    name = "argmin"

    def index(self, x: Array, axis: int) -> Array:
        return x.argmin(axis)


class ArgmaxChannel(Operator):
    """argmax along axis 1 of (N, C, …)."""

    name = "argmax_channel"
    differentiable = False

    def infer_shape(self, p: NoParams, s: Shapes) -> None:
        data = s.get("data")
        if data is not None:
            if len(data) < 2:
                raise s.error(f"data: expected at least 2 dimensions, got {data}")
            if data[1] == 0:
                raise s.error(f"data: {data} has no channels")
            s.assign("output", (data[0], *data[2:]))

    def reference(self, p: NoParams, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        return (inputs[0].argmax(1).astype(inputs[0].dtype),)
