# SPDX-License-Identifier: Apache-2.0
"""Deformable convolutions: offsets that are computed from the data move the elements of each window.

Source: Dai et al., Deformable Convolutional Networks, ICCV 2017; Zhu et al., Deformable ConvNets v2,
CVPR 2019.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, ClassVar

import numpy as np

from mx_core.operator import (
    Array,
    Arrays,
    Operator,
    ReferenceContext,
    Shape,
    ShapeOnly,
    Shapes,
    opt,
    required,
)
from mx_operators.nn.base import wide
from mx_operators.nn.window import WindowParam, check_window, checked_extents, geometry, window_of
from mx_operators.vision.base import image_shape


class DeformableConvolutionParam(WindowParam):
    """Window, groups, bias."""

    kernel: Shape = required("window (height, width)", lower=1)
    num_filter: int = required("output channels", lower=1)
    num_group: int = opt(1, "groups of channels", lower=1)
    num_deformable_group: int = opt(1, "groups of channels that share offsets", lower=1)
    workspace: int = opt(1024, "accepted for compatibility", lower=0)
    no_bias: bool = opt(False, "leave out the bias")
    layout: str | None = opt(None, "axis order", choices=("NCHW", "NCW", "NCDHW", None))


class ModulatedDeformableConvolutionParam(DeformableConvolutionParam):
    """Window, groups, bias."""

    im2col_step: int = opt(64, "accepted for compatibility", lower=1)


class _Columns:
    """Samples of data (N, D, C/D, K, O) for D deformable groups, K elements, O windows."""

    def __init__(
        self, fades: bool, p: DeformableConvolutionParam, data: Array, offset: Array, mask: Array | None
    ) -> None:
        self._p, self._data, self._offset = p, data, offset
        n, channels, height, width = data.shape
        groups, (rows, columns) = p.num_deformable_group, offset.shape[2:]
        taps = p.kernel[0] * p.kernel[1]
        shift = offset.reshape(n, groups, taps, 2, rows, columns)
        stride, dilate, pad = geometry(p)
        tap_y, tap_x = np.divmod(np.arange(taps), p.kernel[1])
        y = (tap_y * dilate[0])[:, None, None] + (np.arange(rows) * stride[0] - pad[0])[:, None]
        x = (tap_x * dilate[1])[:, None, None] + np.arange(columns) * stride[1] - pad[1]
        shape = (n, groups, taps, rows * columns)
        self._y = (y + shift[:, :, :, 0]).reshape(shape)
        self._x = (x + shift[:, :, :, 1]).reshape(shape)
        self._mask = None if mask is None else mask.reshape(n, groups, 1, taps, rows * columns)
        self._image = data.reshape(n, groups, channels // groups, height * width)
        self._corners = list(self._neighbours(fades, height, width))
        self.plain = np.asarray(sum(self._read(i) * w[:, :, None] for i, w, _, _ in self._corners))
        self.values = self.plain if self._mask is None else self.plain * self._mask

    def _neighbours(
        self, fades: bool, height: int, width: int
    ) -> Iterator[tuple[Array, Array, Array, Array]]:
        """Index, weight, and the weight's derivatives by y and x, of the four neighbours."""
        y, x = self._y, self._x
        margin = -1 if fades else 0
        if fades:
            inside = (y > margin) & (x > margin) & (y < height) & (x < width)
        else:
            inside = (y >= 0) & (x >= 0) & (y < height) & (x < width)
        low_y, low_x = np.floor(np.where(inside, y, 0)), np.floor(np.where(inside, x, 0))
        for down in (0, 1):
            for right in (0, 1):
                row, column = low_y + down, low_x + right
                there = inside
                if fades:
                    there = inside & (row >= 0) & (row < height) & (column >= 0) & (column < width)
                share_y, share_x = np.where(inside, y, 0) - low_y, np.where(inside, x, 0) - low_x
                if not fades:  # the last row and column go on
                    row, column = np.minimum(row, height - 1), np.minimum(column, width - 1)
                along_y = share_y if down else 1 - share_y
                along_x = share_x if right else 1 - share_x
                index = np.clip(row, 0, height - 1) * width + np.clip(column, 0, width - 1)
                slope_y, slope_x = (2 * down - 1) * along_x, (2 * right - 1) * along_y
                yield (
                    index.astype(np.int64), np.where(there, along_y * along_x, 0),
                    np.where(there, slope_y, 0), np.where(there, slope_x, 0),
                )  # fmt: skip

    def _read(self, index: Array) -> Array:
        n, groups, taps, windows = index.shape
        flat = index.reshape(n, groups, 1, taps * windows)
        taken = np.take_along_axis(
            self._image, np.broadcast_to(flat, (*self._image.shape[:3], flat.shape[3])), 3
        )
        return taken.reshape(*self._image.shape[:3], taps, windows)

    def grouped(self) -> Array:
        """The columns (N, G, C/G·K, O) of the convolution's groups."""
        n, *rows, windows = self.values.shape
        return self.values.reshape(n, self._p.num_group, prod(rows) // self._p.num_group, windows)

    def pull(self, grad: Array) -> dict[str, Array]:
        """Gradients of data, offset and mask."""
        by_value = grad.reshape(self.values.shape)
        grads = {}
        if self._mask is not None:
            mask = (by_value * self.plain).sum(2)
            grads["mask"] = mask.reshape(len(mask), self._offset.shape[1] // 2, *self._offset.shape[2:])
            by_value = by_value * self._mask
        image = np.zeros_like(self._image)
        n, groups, channels, _ = image.shape
        place = np.ogrid[:n, :groups, :channels]
        by_y, by_x = np.zeros(()), np.zeros(())
        for index, weight, slope_y, slope_x in self._corners:
            where: Any = (*(axis[..., None, None] for axis in place), index[:, :, None])
            np.add.at(image, where, by_value * weight[:, :, None])
            read = (by_value * self._read(index)).sum(2)
            by_y, by_x = by_y + read * slope_y, by_x + read * slope_x
        grads["data"] = image.reshape(self._data.shape)
        grads["offset"] = np.stack((by_y, by_x), 3).reshape(self._offset.shape)
        return grads


def _by_group(weight: Array, p: DeformableConvolutionParam) -> Array:
    """(num_filter, C/num_group, *kernel) as (num_group, num_filter/num_group, C/num_group·kernel)."""
    return weight.reshape(p.num_group, p.num_filter // p.num_group, prod(weight.shape[1:]))


class _Deformable(Operator[DeformableConvolutionParam]):
    #: elements up to one pixel outside fade out, instead of being 0
    fades: ClassVar[bool] = False

    def inputs(self, p: DeformableConvolutionParam) -> tuple[str, ...]:
        return self.arguments[:-1] if p.no_bias else self.arguments

    def infer_shape(self, p: DeformableConvolutionParam, s: Shapes) -> None:
        """As a convolution; offsets lie as the result."""
        data = image_shape(s)
        check_window(p, 2, s)
        for name in ("num_group", "num_deformable_group"):
            if data is not None and data[1] % getattr(p, name) and data[1] >= 0:
                raise s.error(f"{name}: {data[1]} channels do not divide by {getattr(p, name)}")
        if p.num_filter % p.num_group:
            raise s.error(f"num_filter: {p.num_filter} filters do not divide by num_group {p.num_group}")
        if data is None:
            return
        if 0 in data[2:]:
            raise s.error(f"data: images of {data} are empty")
        out = checked_extents(window_of(p), data, data[2:], s)
        points = p.num_deformable_group * p.kernel[0] * p.kernel[1]
        s.assign("offset", (data[0], 2 * points, *out))
        if "mask" in self.arguments:
            s.assign("mask", (data[0], points, *out))
        s.assign("weight", (p.num_filter, data[1] // p.num_group if data[1] >= 0 else -1, *p.kernel))
        if not p.no_bias:
            s.assign("bias", (p.num_filter,))
        s.assign("output", (data[0], p.num_filter, *out))

    def reference(self, p: DeformableConvolutionParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """The sampled windows as columns, then a product per group."""
        table = {name: wide(x) for name, x in zip(self.inputs(p), inputs, strict=True)}
        columns = _Columns(self.fades, p, table["data"], table["offset"], table.get("mask"))
        weight = _by_group(table["weight"], p)
        output = np.einsum("gfk,ngko->ngfo", weight, columns.grouped())
        shape = (len(table["data"]), p.num_filter, *table["offset"].shape[2:])
        result = output.reshape(shape)
        if not p.no_bias:
            result = result + table["bias"][:, None, None]
        return (result.astype(inputs[0].dtype),)

    def gradients(
        self, p: DeformableConvolutionParam, out_grad: Array, table: dict[str, Array | None]
    ) -> Arrays:
        """Through the product, then through the places and weights of the samples."""
        data, offset, filters = (np.asarray(table[name]) for name in ("data", "offset", "weight"))
        columns = _Columns(self.fades, p, data, offset, table.get("mask"))
        weight = _by_group(filters, p)
        out = out_grad.reshape(len(out_grad), p.num_group, weight.shape[1], prod(out_grad.shape[2:]))
        grads = columns.pull(np.einsum("gfk,ngfo->ngko", weight, out))
        grads["weight"] = np.einsum("ngfo,ngko->gfk", out, columns.grouped()).reshape(filters.shape)
        grads["bias"] = out_grad.sum((0, 2, 3))
        return [grads[name] for name in self.inputs(p)]


class DeformableConvolution(_Deformable):
    """A convolution that reads data (N, C, H, W) at offset places, bilinearly.

    offset (N, 2·G·kernel, H′, W′) holds, per deformable group G and element of the window, how far
    down and to the right of its place an element lies; weight (num_filter, C/num_group, *kernel),
    bias (num_filter,). Elements outside the image are 0.
    """

    name = "_contrib_DeformableConvolution"
    arguments = ("data", "offset", "weight", "bias")

    def backward(
        self,
        p: DeformableConvolutionParam,
        out_grad: Array,
        data: Array,
        offset: Array,
        weight: Array,
        bias: ShapeOnly | None = None,
    ) -> Arrays:
        return self.gradients(p, out_grad, {"data": data, "offset": offset, "weight": weight})


class ModulatedDeformableConvolution(_Deformable):
    """DeformableConvolution whose samples are weighted by mask (N, G·kernel, H′, W′).

    Elements up to one pixel outside the image fade out.
    """

    name = "_contrib_ModulatedDeformableConvolution"
    Param = ModulatedDeformableConvolutionParam
    arguments = ("data", "offset", "mask", "weight", "bias")
    fades = True

    def backward(
        self,
        p: DeformableConvolutionParam,
        out_grad: Array,
        data: Array,
        offset: Array,
        mask: Array,
        weight: Array,
        bias: ShapeOnly | None = None,
    ) -> Arrays:
        return self.gradients(p, out_grad, {"data": data, "offset": offset, "mask": mask, "weight": weight})
