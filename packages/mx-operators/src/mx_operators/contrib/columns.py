# SPDX-License-Identifier: Apache-2.0
"""The windows of a convolution as columns of a matrix, and back."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from mx_core.operator import (
    Array,
    Arrays,
    GradientBuilder,
    Gradients,
    Operator,
    Params,
    ReferenceContext,
    Shape,
    ShapeOnly,
    Shapes,
    opt,
    required,
)
from mx_operators.nn.base import out_extent, pad_spatial, per_axis, wide, windows


class Im2colParam(Params):
    """The windows."""

    kernel: Shape = required("window, one extent per spatial axis", lower=1)
    stride: Shape = opt((), "step per spatial axis; () is 1", lower=1)
    dilate: Shape = opt((), "distance of a window's elements; () is 1", lower=1)
    pad: Shape = opt((), "padding on both sides; () is 0", lower=0)


class Col2imParam(Im2colParam, leading=True):
    """The image, and the windows."""

    output_size: Shape = required("spatial extents of the image", lower=0)


def _geometry(p: Im2colParam) -> list[tuple[int, int, int, int]]:
    """Per axis kernel, stride, pad, dilate."""
    rank = len(p.kernel)
    parts = (per_axis(p.stride, rank, 1), per_axis(p.pad, rank, 0), per_axis(p.dilate, rank, 1))
    return list(zip(p.kernel, *parts, strict=True))


def _check(p: Im2colParam, s: Shapes) -> int:
    rank = len(p.kernel)
    if not 1 <= rank <= 3:
        raise s.error(f"kernel: expected 1 to 3 values, got {p.kernel}")
    for name in ("stride", "pad", "dilate"):
        value = getattr(p, name)
        if value and len(value) != rank:
            raise s.error(f"{name}: expected {rank} values for kernel {p.kernel}, got {value}")
    return rank


def _extents(p: Im2colParam, spatial: Sequence[int]) -> tuple[int, ...]:
    return tuple(
        out_extent(size, k, stride, pad, dilate)
        for size, (k, stride, pad, dilate) in zip(spatial, _geometry(p), strict=True)
    )


def _columns(p: Im2colParam, x: Array) -> Array:
    """(N, C, …) as (N, C·∏kernel, ∏out)."""
    rank = len(p.kernel)
    kernel, stride, pad, dilate = zip(*_geometry(p), strict=True)
    view = windows(pad_spatial(x, [(q, q) for q in pad]), kernel, stride, dilate)
    order = (0, 1, *range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank))
    transposed = view.transpose(order)
    return transposed.reshape(x.shape[0], x.shape[1] * prod(kernel), prod(transposed.shape[2 + rank :]))


def _image(p: Im2colParam, columns: Array, spatial: Sequence[int]) -> Any:
    """The adjoint of `_columns`: overlapping windows add up."""
    geometry, out = _geometry(p), _extents(p, spatial)
    n, channels = columns.shape[0], columns.shape[1] // prod(p.kernel)
    parts = columns.reshape(n, channels, *p.kernel, *out)
    padded = [size + 2 * pad for size, (_, _, pad, _) in zip(spatial, geometry, strict=True)]
    image = np.zeros((n, channels, *padded), columns.dtype)
    for place in product(*map(range, p.kernel)):
        cut = tuple(
            slice(i * dilate, i * dilate + stride * (extent - 1) + 1, stride)
            for i, extent, (_, stride, _, dilate) in zip(place, out, geometry, strict=True)
        )
        element: tuple[int | slice, ...] = (slice(None), slice(None), *place)
        image[:, :, *cut] += parts[element]
    inner = (slice(pad, pad + size) for size, (_, _, pad, _) in zip(spatial, geometry, strict=True))
    return image[:, :, *inner]


class Im2col(Operator[Im2colParam]):
    """Windows of data (N, C, …) as columns: (N, C·∏kernel, windows), as a convolution reads them."""

    name = "im2col"
    linear = True

    def infer_shape(self, p: Im2colParam, s: Shapes) -> None:
        rank = _check(p, s)
        data = s.get("data")
        if data is None:
            return
        if len(data) != rank + 2:
            raise s.error(f"data: expected {rank + 2} dimensions for kernel {p.kernel}, got {data}")
        out = _extents(p, data[2:])
        if any(extent < 1 for extent, size in zip(out, data[2:], strict=True) if size >= 0):
            raise s.error(f"kernel {p.kernel} is larger than the padded data {data}, pad {p.pad}")
        rows = data[1] * prod(p.kernel) if data[1] >= 0 else -1
        s.assign("output", (data[0], rows, -1 if -1 in out else prod(out)))

    def reference(self, p: Im2colParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """A transposed view of the windows."""
        return (_columns(p, inputs[0]),)

    def backward(self, p: Im2colParam, out_grad: Array, data: ShapeOnly) -> Array:
        """Windows add up where they overlap."""
        return _image(p, out_grad, data.shape[2:])


class Col2im(Operator[Col2imParam]):
    """Columns (N, C·∏kernel, windows) added up in an image (N, C, output_size): im2col's adjoint."""

    name = "col2im"

    def infer_shape(self, p: Col2imParam, s: Shapes) -> None:
        """As many columns as there are windows."""
        rank = _check(p, s)
        if len(p.output_size) != rank:
            raise s.error(f"output_size: expected {rank} values, got {p.output_size}")
        data = s.get("data")
        if data is None:
            return
        if len(data) != 3:
            raise s.error(f"data: expected 3 dimensions (N, C·∏kernel, windows), got {data}")
        size, out = prod(p.kernel), _extents(p, p.output_size)
        if min(out) < 1:
            raise s.error(f"kernel {p.kernel} is larger than the padded image {p.output_size}")
        if data[1] >= 0 and data[1] % size:
            raise s.error(f"data: expected a multiple of {size} rows for kernel {p.kernel}, got {data}")
        s.assign("data", (data[0], data[1], prod(out)))
        s.assign("output", (data[0], data[1] // size if data[1] >= 0 else -1, *p.output_size))

    def gradient(self, p: Col2imParam, g: GradientBuilder) -> Gradients:
        """The columns of the out-gradient."""
        parts = {name: getattr(p, name) for name in ("kernel", "stride", "dilate", "pad")}
        return g.op("im2col", (g.out_grad(),), **parts)

    def reference(self, p: Col2imParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """One addition per element of the window."""
        return (_image(p, wide(inputs[0]), p.output_size).astype(inputs[0].dtype),)
