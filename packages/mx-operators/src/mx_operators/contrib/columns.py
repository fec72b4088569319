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
    ReferenceContext,
    Shape,
    ShapeOnly,
    Shapes,
    required,
)
from mx_operators.nn.base import pad_spatial, wide, windows
from mx_operators.nn.window import (
    WindowParam,
    check_rank,
    check_window,
    checked_extents,
    geometry,
    out_extents,
    window_of,
)


class Col2imParam(WindowParam, leading=True):
    """The image, and the windows."""

    output_size: Shape = required("spatial extents of the image", lower=0)


def _check(p: WindowParam, s: Shapes) -> int:
    rank = len(p.kernel)
    if not 1 <= rank <= 3:
        raise s.error(f"kernel: expected 1 to 3 values, got {p.kernel}")
    check_window(p, rank, s)
    return rank


def _columns(p: WindowParam, x: Array) -> Array:
    """(N, C, …) as (N, C·∏kernel, ∏out)."""
    rank = len(p.kernel)
    stride, dilate, pad = geometry(p)
    view = windows(pad_spatial(x, [(q, q) for q in pad]), p.kernel, stride, dilate)
    order = (0, 1, *range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank))
    transposed = view.transpose(order)
    return transposed.reshape(x.shape[0], x.shape[1] * prod(p.kernel), prod(transposed.shape[2 + rank :]))


def _image(p: WindowParam, columns: Array, spatial: Sequence[int]) -> Any:
    """The adjoint of `_columns`: overlapping windows add up."""
    (stride, dilate, pad), out = geometry(p), out_extents(p, spatial)
    n, channels = columns.shape[0], columns.shape[1] // prod(p.kernel)
    parts = columns.reshape(n, channels, *p.kernel, *out)
    padded = [size + 2 * q for size, q in zip(spatial, pad, strict=True)]
    image = np.zeros((n, channels, *padded), columns.dtype)
    for place in product(*map(range, p.kernel)):
        cut = tuple(
            slice(i * d, i * d + step * (extent - 1) + 1, step)
            for i, extent, step, d in zip(place, out, stride, dilate, strict=True)
        )
        element: tuple[int | slice, ...] = (slice(None), slice(None), *place)
        image[:, :, *cut] += parts[element]
    inner = (slice(q, q + size) for size, q in zip(spatial, pad, strict=True))
    return image[:, :, *inner]


class Im2col(Operator[WindowParam]):
    """Windows of data (N, C, …) as columns: (N, C·∏kernel, windows), as a convolution reads them."""

    name = "im2col"
    linear = True

    def infer_shape(self, p: WindowParam, s: Shapes) -> None:
        _check(p, s)
        data = s.get("data")
        if data is None:
            return
        check_rank(p, data, s)
        out = checked_extents(window_of(p), data, data[2:], s)
        rows = data[1] * prod(p.kernel) if data[1] >= 0 else -1
        s.assign("output", (data[0], rows, -1 if -1 in out else prod(out)))

    def reference(self, p: WindowParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """A transposed view of the windows."""
        return (_columns(p, inputs[0]),)

    def backward(self, p: WindowParam, out_grad: Array, data: ShapeOnly) -> Array:
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
        size, out = prod(p.kernel), out_extents(p, p.output_size)
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
