# SPDX-License-Identifier: Apache-2.0
"""Order: sort, argsort, topk, argmax, argmin, argmax_channel."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from mx_core import dtypes
from mx_core.operator import OperatorProperty, opt, param
from mx_core.operator.property import ReferenceContext
from mx_operators.array.join import checked_axis


@param
class SortParam:
    """Axis and direction."""

    axis: int | None = opt(-1, "the axis; None: of the flattened array")
    is_ascend: bool = opt(True, "smallest first")


@param
class ArgsortParam:
    """Axis, direction, type."""

    axis: int | None = opt(-1, "the axis; None: of the flattened array")
    is_ascend: bool = opt(True, "smallest first")
    dtype: str = opt("float32", "type of the indices")


@param
class TopkParam:
    """How many, of what, as what."""

    axis: int | None = opt(-1, "the axis; None: of the flattened array")
    k: int = opt(1, "how many; below 1: all")
    ret_typ: str = opt("indices", "what is returned", choices=("both", "indices", "mask", "value"))
    is_ascend: bool = opt(False, "the smallest ones")
    dtype: str = opt("float32", "type of the indices")


@param
class ArgParam:
    """Axis."""

    axis: int | None = opt(None, "the axis; None: of the flattened array")
    keepdims: bool = opt(False, "keep the axis with extent 1")


def order(x: Any, ascending: bool) -> Any:
    """Stable order along the last axis, NaN last."""
    if x.dtype.kind == "V":  # bfloat16
        x = x.astype(np.float32)
    if ascending:
        return np.argsort(x, -1, kind="stable")
    key = -x if x.dtype.kind == "f" else ~x if x.dtype.kind in "iu" else ~x.astype(np.int8)
    return np.argsort(key, -1, kind="stable")


def _axis_last(x: Any, axis: int | None) -> Any:
    return x.reshape(-1) if axis is None else np.moveaxis(x, axis, -1)


class Sort(OperatorProperty):
    """Values in order along an axis."""

    name = "sort"
    Param = SortParam
    results = ("output0",)

    def infer_shape(self, p: Any, s: Any) -> None:
        """As data, or flat."""
        _ordered_shape(p, s, "output0")

    def gradient(self, p: Any, g: Any) -> Any:
        """Scattered back to where the values came from."""
        return g.op("_backward_sort", (g.out_grad(), g.input(0)), params=p)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardSort(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """A stable sort."""
        x = _axis_last(inputs[0], p.axis)
        y = np.take_along_axis(x, order(x, p.is_ascend), -1)
        return (y if p.axis is None else np.moveaxis(y, -1, p.axis),)


class BackwardSort(OperatorProperty):
    """Gradient of sort."""

    name = "_backward_sort"
    Param = SortParam
    arguments = ("out_grad", "data")
    results = ("data_grad",)

    def infer_shape(self, p: Any, s: Any) -> None:
        """As data."""
        s.unify(["data", "data_grad"])

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """The inverse permutation."""
        g, x = _axis_last(inputs[0], p.axis), _axis_last(inputs[1], p.axis)
        out = np.empty_like(g)
        np.put_along_axis(out, order(x, p.is_ascend), g, -1)
        return ((out if p.axis is None else np.moveaxis(out, -1, p.axis)).reshape(inputs[1].shape),)


def _ordered_shape(p: Any, s: Any, output: str = "output") -> None:
    data = s.known("data")
    if p.axis is not None:
        s.unify(["data", output])
        if data is not None:
            checked_axis(p.axis, len(data), s)
    elif data is not None:
        s.assign(output, (int(np.prod(data)),))


class Argsort(OperatorProperty):
    """Indices that would sort an axis."""

    name = "argsort"
    Param = ArgsortParam

    def infer_shape(self, p: Any, s: Any) -> None:
        """As data, or flat."""
        _ordered_shape(p, s)

    def infer_type(self, p: Any, t: Any) -> None:
        """From the parameter."""
        t.assign("output", p.dtype)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """A stable argsort."""
        index = order(_axis_last(inputs[0], p.axis), p.is_ascend)
        index = index if p.axis is None else np.moveaxis(index, -1, p.axis)
        return (index.astype(dtypes.numpy_dtype(dtypes.code(p.dtype))),)


class Topk(OperatorProperty):
    """The k largest (or smallest) along an axis: indices, values, both, or a 0/1 mask."""

    name = "topk"
    Param = TopkParam

    def outputs(self, p: Any) -> tuple[str, ...]:
        """Values and indices with ret_typ both; values keep their name alone."""
        return {"both": ("output0", "output1"), "value": ("output0",)}.get(p.ret_typ, ("output",))

    def infer_shape(self, p: Any, s: Any) -> None:
        """k along the axis."""
        data = s.known("data")
        if data is None:
            return
        values = _top_shape(p, data, s)
        for name in self.outputs(p):
            s.assign(name, data if p.ret_typ == "mask" else values)

    def infer_type(self, p: Any, t: Any) -> None:
        """Values as data, indices from the parameter."""
        names = self.outputs(p)
        if p.ret_typ != "indices":
            t.unify(["data", names[0]])
        if p.ret_typ in ("both", "indices"):
            t.assign(names[-1], p.dtype)

    def gradient(self, p: Any, g: Any) -> Any:
        """Of values, scattered back; indices and masks have none."""
        if p.ret_typ not in ("both", "value"):
            return None
        return g.op("_backward_topk", (g.out_grad(0), g.input(0)), params=p)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardTopk(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """The head of a stable order."""
        x = _axis_last(inputs[0], p.axis)
        index = _head(p, x)
        if p.ret_typ == "mask":
            mask = np.zeros_like(x)
            np.put_along_axis(mask, index, 1, -1)
            mask = mask if p.axis is None else np.moveaxis(mask, -1, p.axis)
            return (mask.reshape(inputs[0].shape),)

        def back(a: Any) -> Any:
            return a if p.axis is None else np.moveaxis(a, -1, p.axis)

        indices = back(index).astype(dtypes.numpy_dtype(dtypes.code(p.dtype)))
        values = back(np.take_along_axis(x, index, -1))
        return {"indices": (indices,), "value": (values,), "both": (values, indices)}[p.ret_typ]


def _top_shape(p: Any, data: tuple[int, ...], s: Any) -> tuple[int, ...]:
    flat = p.axis is None
    shape = (prod(data),) if flat else data
    axis = 0 if flat else checked_axis(p.axis, len(data), s)
    k = p.k if p.k >= 1 else shape[axis]
    if k > shape[axis]:
        raise s.error(f"k: expected at most {shape[axis]} for data {data}, got {p.k}")
    return (*shape[:axis], k, *shape[axis + 1 :])


def _head(p: Any, x: Any) -> Any:
    k = p.k if p.k >= 1 else x.shape[-1]
    return order(x, p.is_ascend)[..., :k]


class BackwardTopk(OperatorProperty):
    """Gradient of the values of topk."""

    name = "_backward_topk"
    Param = TopkParam
    arguments = ("out_grad", "data")
    results = ("data_grad",)

    def infer_shape(self, p: Any, s: Any) -> None:
        """As data; out_grad as the values."""
        s.unify(["data", "data_grad"])
        data = s.known("data")
        if data is not None:
            s.assign("out_grad", _top_shape(p, data, s))

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Written where the values came from."""
        g, x = _axis_last(inputs[0], p.axis), _axis_last(inputs[1], p.axis)
        out = np.zeros_like(x)
        np.put_along_axis(out, _head(p, x), g, -1)
        return ((out if p.axis is None else np.moveaxis(out, -1, p.axis)).reshape(inputs[1].shape),)


class _Arg(OperatorProperty):
    Param = ArgParam

    def infer_shape(self, p: Any, s: Any) -> None:
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

    def infer_type(self, p: Any, t: Any) -> None:
        """As data, MXNet's convention."""
        t.unify(["data", "output"])

    def index(self, x: Any, axis: int) -> Any:
        """The index along an axis."""
        raise NotImplementedError

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
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

    def index(self, x: Any, axis: int) -> Any:
        """The first largest."""
        return x.argmax(axis)


class Argmin(_Arg):
    """Index of the smallest element along an axis, in the type of data."""

    name = "argmin"

    def index(self, x: Any, axis: int) -> Any:
        """The first smallest."""
        return x.argmin(axis)


class ArgmaxChannel(OperatorProperty):
    """argmax along axis 1 of (N, C, …)."""

    name = "argmax_channel"

    def infer_shape(self, p: Any, s: Any) -> None:
        """Without axis 1."""
        data = s.get("data")
        if data is not None:
            if len(data) < 2:
                raise s.error(f"data: expected at least 2 dimensions, got {data}")
            if data[1] == 0:
                raise s.error(f"data: {data} has no channels")
            s.assign("output", (data[0], *data[2:]))

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """NumPy's argmax."""
        return (inputs[0].argmax(1).astype(inputs[0].dtype),)


OPERATORS: tuple[type[OperatorProperty], ...] = (Sort, Argsort, Topk, Argmax, Argmin, ArgmaxChannel)
