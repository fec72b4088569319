# SPDX-License-Identifier: Apache-2.0
"""Correlation: how well patches of one feature map fit displaced patches of another.

Source: Dosovitskiy et al., FlowNet: Learning Optical Flow with Convolutional Networks, ICCV 2015.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import EllipsisType

import numpy as np

from mx_core.operator import Array, Arrays, Operator, Params, ReferenceContext, Shapes, opt
from mx_operators.nn.base import pad_spatial, wide
from mx_operators.vision.base import image_shape


class CorrelationParam(Params):
    """Patches, displacements, steps."""

    kernel_size: int = opt(1, "extent of a patch, odd", lower=1)
    max_displacement: int = opt(1, "largest displacement in pixels", lower=0)
    stride1: int = opt(1, "step of the patches of data1", lower=1)
    stride2: int = opt(1, "step of the displacements", lower=1)
    pad_size: int = opt(0, "zeros around both maps", lower=0)
    is_multiply: bool = opt(True, "products; otherwise absolute differences")


Place = tuple[EllipsisType, slice, slice]


def _extents(p: CorrelationParam, shape: Sequence[int]) -> tuple[int, int]:
    border = p.max_displacement + p.kernel_size // 2
    height, width = (e + 2 * p.pad_size - 2 * border for e in shape[2:])
    return -(-height // p.stride1), -(-width // p.stride1)


def _terms(p: CorrelationParam, shape: Sequence[int]) -> Iterator[tuple[int, Place, Place]]:
    """Per displacement and position in the patch: channel of the result, the views that meet."""
    height, width = _extents(p, shape)
    radius = p.max_displacement // p.stride2
    steps = [d * p.stride2 for d in range(-radius, radius + 1)]

    def view(top: int, left: int) -> Place:
        rows = slice(top, top + (height - 1) * p.stride1 + 1, p.stride1)
        return (..., rows, slice(left, left + (width - 1) * p.stride1 + 1, p.stride1))

    begin = p.max_displacement
    for channel, (dy, dx) in enumerate((dy, dx) for dy in steps for dx in steps):
        for y in range(begin, begin + p.kernel_size):
            for x in range(begin, begin + p.kernel_size):
                yield channel, view(y, x), view(y + dy, x + dx)


def _padded(p: CorrelationParam, x: Array) -> Array:
    return pad_spatial(wide(x), ((p.pad_size, p.pad_size),) * 2)


class Correlation(Operator[CorrelationParam]):
    """data1, data2 (N, C, H, W) give (N, D², H′, W′), D = 2·⌊max_displacement/stride2⌋ + 1.

    Channel i·D + j is the mean over a patch around (y, x) of data1 and the channels of
    data1[y, x]·data2[y + dy, x + dx], or of |data1 − data2|, with displacement
    (dy, dx) = stride2·(i − ⌊D/2⌋, j − ⌊D/2⌋).
    """

    name = "Correlation"
    floating_only = True
    arguments = ("data1", "data2")

    def infer_shape(self, p: CorrelationParam, s: Shapes) -> None:
        if p.kernel_size % 2 == 0:
            raise s.error(f"kernel_size: expected an odd number, got {p.kernel_size}")
        s.unify(["data1", "data2"])
        data = image_shape(s, "data1")
        if data is None or -1 in data[2:]:
            return
        new = _extents(p, data)
        if min(new) < 1 or data[1] == 0:
            raise s.error(f"data1: patches and displacements do not fit in {data}")
        s.assign("output", (data[0], (2 * (p.max_displacement // p.stride2) + 1) ** 2, *new))

    def reference(self, p: CorrelationParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """A sum over displaced views."""
        a, b = (_padded(p, x) for x in inputs)
        n, channels = a.shape[:2]
        size = (2 * (p.max_displacement // p.stride2) + 1) ** 2
        out = np.zeros((n, size, *_extents(p, inputs[0].shape)), a.dtype)
        for channel, one, two in _terms(p, inputs[0].shape):
            met = a[one] * b[two] if p.is_multiply else abs(a[one] - b[two])
            out[:, channel] += met.sum(1)
        return ((out / (channels * p.kernel_size**2)).astype(inputs[0].dtype),)

    def backward(self, p: CorrelationParam, out_grad: Array, data1: Array, data2: Array) -> Arrays:
        """Out-gradients added to displaced views."""
        a, b = _padded(p, data1), _padded(p, data2)
        g = out_grad / (a.shape[1] * p.kernel_size**2)
        grads = np.zeros_like(a), np.zeros_like(b)
        for channel, one, two in _terms(p, data1.shape):
            head = g[:, channel, None]
            sign = np.where(a[one] >= b[two], 1, -1)
            grads[0][one] += head * (b[two] if p.is_multiply else sign)
            grads[1][two] += head * (a[one] if p.is_multiply else -sign)
        height, width = data1.shape[2:]
        inside = (..., slice(p.pad_size, p.pad_size + height), slice(p.pad_size, p.pad_size + width))
        return tuple(grad[inside] for grad in grads)
