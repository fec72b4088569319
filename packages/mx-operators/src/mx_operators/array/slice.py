# SPDX-License-Identifier: Apache-2.0
"""Parts of arrays: slice, slice_axis, slice_like, _slice_assign, Pad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core.operator import OperatorProperty, opt, param, required
from mx_core.operator.property import ReferenceContext
from mx_operators.array.join import checked_axis
from mx_operators.backward import BackwardOfData, linear_gradient
from mx_operators.nn.base import wide

Bounds = tuple[int | None, ...]


@param
class SliceParam:
    """Begin, end, step per leading axis; None is open."""

    begin: Bounds = required("first index per axis; None: from the start")
    end: Bounds = required("behind the last index per axis; None: to the end")
    step: Bounds = opt((), "step per axis; negative walks backwards; () is 1")


def slices(p: Any, shape: Sequence[int], s: Any = None) -> tuple[slice, ...]:
    """Python slices of a SliceParam, checked against the shape."""
    if s is not None and (len(p.begin) != len(p.end) or len(p.begin) > len(shape)):
        raise s.error(f"begin {p.begin} and end {p.end} do not fit data {tuple(shape)}")
    steps = p.step or (None,) * len(p.begin)
    if s is not None and (len(steps) != len(p.begin) or 0 in steps):
        raise s.error(f"step: expected {len(p.begin)} non-zero values, got {p.step}")
    return tuple(slice(b, e, k) for b, e, k in zip(p.begin, p.end, steps, strict=True))


def sliced_shape(cuts: Sequence[slice], shape: Sequence[int]) -> tuple[int, ...]:
    """Shape of the part; −1 where the extent is unknown."""
    extents = [
        -1 if size < 0 else len(range(*cut.indices(size))) for cut, size in zip(cuts, shape, strict=False)
    ]
    return (*extents, *shape[len(cuts) :])


class Slice(OperatorProperty):
    """data[begin[0]:end[0]:step[0], …]."""

    name = "slice"
    aliases = ("crop",)
    Param = SliceParam

    def infer_shape(self, p: Any, s: Any) -> None:
        """Forward."""
        data = s.get("data")
        if data is not None:
            s.assign("output", sliced_shape(slices(p, data, s), data))

    def gradient(self, p: Any, g: Any) -> Any:
        """Written into zeros; only the shape of data is needed."""
        return g.op("_backward_slice", (g.out_grad(), g.input(0)), params=p)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardSlice(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """A slice."""
        return (inputs[0][slices(p, inputs[0].shape)],)


class BackwardSlice(BackwardOfData):
    """out_grad where data was cut, zeros elsewhere."""

    name = "_backward_slice"
    Param = SliceParam

    def gradient(self, p: Any, g: Any) -> Any:
        """The same part."""
        return (g.op("slice", (g.out_grad(),), params=p)[0], None)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """An assignment."""
        out = np.zeros(inputs[1].shape, inputs[0].dtype)
        out[slices(p, out.shape)] = inputs[0]
        return (out,)


@param
class SliceAxisParam:
    """Bounds on one axis."""

    axis: int = required("the axis")
    begin: int = required("first index")
    end: int | None = required("behind the last index; None: to the end")


class SliceAxis(OperatorProperty):
    """data[…, begin:end, …] on one axis."""

    name = "slice_axis"
    Param = SliceAxisParam

    def infer_shape(self, p: Any, s: Any) -> None:
        """Forward."""
        data = s.get("data")
        if data is None:
            return
        axis = checked_axis(p.axis, len(data), s)
        if data[axis] < 0:
            return
        first, last, _ = slice(p.begin, p.end).indices(data[axis])
        if first >= last:
            raise s.error(f"begin {p.begin} and end {p.end} select nothing of axis {p.axis} of {data}")
        s.assign("output", (*data[:axis], last - first, *data[axis + 1 :]))

    def gradient(self, p: Any, g: Any) -> Any:
        """Written into zeros."""
        return g.op("_backward_slice_axis", (g.out_grad(), g.input(0)), params=p)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardSliceAxis(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """A slice."""
        return (inputs[0][axis_cut(p, inputs[0].ndim)],)


def axis_cut(p: Any, rank: int) -> tuple[slice, ...]:
    """An index with one slice."""
    cut = [slice(None)] * rank
    cut[p.axis] = slice(p.begin, p.end)
    return tuple(cut)


class BackwardSliceAxis(BackwardOfData):
    """out_grad where data was cut, zeros elsewhere."""

    name = "_backward_slice_axis"
    Param = SliceAxisParam

    def gradient(self, p: Any, g: Any) -> Any:
        """The same part."""
        return (g.op("slice_axis", (g.out_grad(),), params=p)[0], None)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """An assignment."""
        out = np.zeros(inputs[1].shape, inputs[0].dtype)
        out[axis_cut(p, out.ndim)] = inputs[0]
        return (out,)


@param
class SliceLikeParam:
    """Which axes."""

    axes: tuple[int, ...] = opt((), "axes cut to the extent of the other; () is all")


class SliceLike(OperatorProperty):
    """data cut to the leading part that has the extents of shape_like."""

    name = "slice_like"
    Param = SliceLikeParam
    arguments = ("data", "shape_like")
    shape_only_inputs = frozenset((1,))

    def infer_shape(self, p: Any, s: Any) -> None:
        """Forward."""
        data, like = s.get("data"), s.get("shape_like")
        if data is None or like is None:
            return
        axes = [checked_axis(a, len(data), s, "axes") for a in p.axes] or range(len(data))
        if not p.axes and len(data) != len(like):
            raise s.error(f"data {data} and shape_like {like} differ in dimensions")
        out = list(data)
        for axis in axes:
            if axis >= len(like) or data[axis] < like[axis]:
                raise s.error(f"data {data} is smaller than shape_like {like} on axis {axis}")
            out[axis] = like[axis]
        s.assign("output", out)

    def infer_type(self, p: Any, t: Any) -> None:
        """As data."""
        t.unify(["data", "output"])

    def gradient(self, p: Any, g: Any) -> Any:
        """Padded with zeros."""
        return (g.op("_backward_slice_like", (g.out_grad(), g.input(0)))[0], None)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardSliceLike(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """A leading slice."""
        data, like = inputs
        axes = {a % data.ndim for a in p.axes} or set(range(data.ndim))
        return (data[tuple(slice(like.shape[a]) if a in axes else slice(None) for a in range(data.ndim))],)


class BackwardSliceLike(OperatorProperty):
    """out_grad with zeros behind it."""

    name = "_backward_slice_like"
    arguments = ("out_grad", "data")
    results = ("data_grad",)
    shape_only_inputs = frozenset((1,))

    def infer_shape(self, p: Any, s: Any) -> None:
        """As data, of which out_grad is a leading part."""
        s.unify(["data", "data_grad"])
        head, data = s.known("out_grad"), s.known("data")
        if head is None or data is None:
            return
        if len(head) != len(data) or any(a > b for a, b in zip(head, data, strict=True)):
            raise s.error(f"out_grad: {head} is no part of data {data}")

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """An assignment."""
        out = np.zeros(inputs[1].shape, inputs[0].dtype)
        out[tuple(slice(e) for e in inputs[0].shape)] = inputs[0]
        return (out,)


class SliceAssign(OperatorProperty):
    """lhs with rhs written into a part of it."""

    name = "_slice_assign"
    aliases = ("_crop_assign",)
    Param = SliceParam
    arguments = ("lhs", "rhs")

    def infer_shape(self, p: Any, s: Any) -> None:
        """rhs has the shape of the part."""
        s.unify(["lhs", "output"])
        lhs = s.get("lhs")
        if lhs is not None:
            s.assign("rhs", sliced_shape(slices(p, lhs, s), lhs))

    def inplace(self, p: Any) -> tuple[tuple[int, int], ...]:
        """The rest stays."""
        return ((0, 0),)

    def gradient(self, p: Any, g: Any) -> Any:
        """Zero in the part for lhs, the part for rhs."""
        part = g.op("slice", (g.out_grad(),), params=p)
        rest = g.op(
            "_slice_assign_scalar", (g.out_grad(),), begin=p.begin, end=p.end, step=p.step, scalar=0.0
        )
        return (rest[0], part[0])

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """An assignment."""
        out = inputs[0].copy()
        out[slices(p, out.shape)] = inputs[1]
        return (out,)


@param
class SliceAssignScalarParam:
    """The number and the part."""

    scalar: float = opt(0.0, "the number", runtime=True)
    begin: Bounds = required("first index per axis; None: from the start")
    end: Bounds = required("behind the last index per axis; None: to the end")
    step: Bounds = opt((), "step per axis; () is 1")


class SliceAssignScalar(OperatorProperty):
    """data with a number written into a part of it."""

    name = "_slice_assign_scalar"
    aliases = ("_crop_assign_scalar",)
    Param = SliceAssignScalarParam

    def infer_shape(self, p: Any, s: Any) -> None:
        """Unchanged."""
        s.unify(["data", "output"])
        data = s.get("data")
        if data is not None:
            slices(p, data, s)

    def inplace(self, p: Any) -> tuple[tuple[int, int], ...]:
        """The rest stays."""
        return ((0, 0),)

    def gradient(self, p: Any, g: Any) -> Any:
        """Zero in the part."""
        return g.op(
            "_slice_assign_scalar", (g.out_grad(),), begin=p.begin, end=p.end, step=p.step, scalar=0.0
        )

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """An assignment."""
        out = inputs[0].copy()
        out[slices(p, out.shape)] = p.scalar
        return (out,)


@param
class PadParam:
    """How much, with what."""

    mode: str = required("what is put around", choices=("constant", "edge", "reflect"))
    pad_width: tuple[int, ...] = required("before and behind, per axis", lower=0)
    constant_value: float = opt(0.0, "for mode constant", runtime=True)


class Pad(OperatorProperty):
    """(N, C, …) with values put around the spatial axes."""

    name = "Pad"
    aliases = ("pad",)
    Param = PadParam

    def widths(self, p: Any) -> list[tuple[int, int]]:
        """Pairs per axis."""
        return list(zip(p.pad_width[::2], p.pad_width[1::2], strict=True))

    def infer_shape(self, p: Any, s: Any) -> None:
        """Forward."""
        data = s.get("data")
        if data is None:
            return
        if len(p.pad_width) != 2 * len(data):
            raise s.error(f"pad_width: expected {2 * len(data)} values for data {data}, got {p.pad_width}")
        widths = self.widths(p)
        for extent, (a, b) in zip(data, widths, strict=True):
            if p.mode == "reflect" and extent >= 0 and max(a, b) >= max(extent, 1):
                raise s.error(f"pad_width {p.pad_width} reflects more than data {data} has")
            if p.mode == "edge" and extent == 0 and a + b:
                raise s.error(f"data {data} has no edge to repeat")
        s.assign("output", [e + a + b if e >= 0 else -1 for e, (a, b) in zip(data, widths, strict=True)])

    def gradient(self, p: Any, g: Any) -> Any:
        """Sums of what was copied; only the shape of data is needed."""
        return g.op("_backward_Pad", (g.out_grad(), g.input(0)), params=p)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardPad(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """NumPy's pad."""
        more = {"constant_values": p.constant_value} if p.mode == "constant" else {}
        return (np.pad(inputs[0], self.widths(p), mode=p.mode, **more),)


class BackwardPad(BackwardOfData):
    """Every element of out_grad added to the element it was copied from."""

    name = "_backward_Pad"
    Param = PadParam

    def gradient(self, p: Any, g: Any) -> Any:
        """Padded again, with zeros where constants were."""
        return linear_gradient(self, p.replace(constant_value=0.0), g)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Axis by axis through the padded index."""
        grad, shape = wide(inputs[0]), inputs[1].shape
        widths = zip(p.pad_width[::2], p.pad_width[1::2], strict=True)
        for axis, (extent, width) in enumerate(zip(shape, widths, strict=True)):
            if p.mode == "constant":
                cut = [slice(None)] * grad.ndim
                cut[axis] = slice(width[0], width[0] + extent)
                grad = grad[tuple(cut)]
                continue
            source = np.pad(np.arange(extent), width, mode=p.mode)
            folded = np.zeros((extent, *np.delete(grad.shape, axis)), grad.dtype)
            np.add.at(folded, source, np.moveaxis(grad, axis, 0))
            grad = np.moveaxis(folded, 0, axis)
        return (grad.astype(inputs[0].dtype),)


OPERATORS: tuple[type[OperatorProperty], ...] = (
    Slice, SliceAxis, SliceLike, SliceAssign, SliceAssignScalar, Pad,
)  # fmt: skip
