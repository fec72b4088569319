# SPDX-License-Identifier: Apache-2.0
"""Images of another size.

Results are those of OpenCV's `resize`: weights of 8-bit images are rounded to multiples of 2⁻¹¹.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from mx_core.operator import Array, Arrays, Operator, Params, ReferenceContext, Shape, Shapes, opt
from mx_operators.image.base import image

_BITS = 11


class ResizeParam(Params):
    """Extents, method."""

    size: Shape = opt((), "(width, height), or both as one value", lower=1)
    keep_ratio: bool = opt(False, "with one value: that of the shorter side, the other in proportion")
    interp: int = opt(
        1,
        "0: nearest, 1: bilinear, 2: bicubic, 3: mean of the area, 4: Lanczos of 8 × 8",
        choices=(0, 1, 2, 3, 4),
    )


def extents(p: ResizeParam, height: int, width: int) -> tuple[int, int]:
    """Rows and columns of the result."""
    if len(p.size) == 2:
        return p.size[1], p.size[0]
    side = p.size[0]
    if not p.keep_ratio:
        return side, side
    return (height * side // width, side) if height > width else (side, width * side // height)


class Resize(Operator[ResizeParam]):
    """data (H, W, C) or (N, H, W, C) sampled at height · width positions."""

    name = "_image_resize"
    aliases = ("_npx__image_resize",)
    differentiable = False
    custom_gradient = True

    def infer_shape(self, p: ResizeParam, s: Shapes) -> None:
        data = image(s)
        if len(p.size) not in (1, 2):
            raise s.error(f"size: expected 1 or 2 values, got {p.size}")
        if data is None or -1 in data[-3:-1]:
            return
        if 0 in data[-3:-1]:
            raise s.error(f"data: images of {data} are empty")
        s.assign("output", (*data[:-3], *extents(p, *data[-3:-1]), data[-1]))

    def reference(self, p: ResizeParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """Along columns, then along rows."""
        x = inputs[0]
        height, width = x.shape[-3:-1]
        new_height, new_width = extents(p, height, width)
        interp = p.interp
        smaller = new_height <= height and new_width <= width
        if interp == 0:
            rows = np.minimum(np.arange(new_height) * (height / new_height), height - 1).astype(np.int64)
            columns = np.minimum(np.arange(new_width) * (width / new_width), width - 1).astype(np.int64)
            return (x[..., rows[:, None], columns, :],)
        taps = {1: linear, 2: cubic, 3: area if smaller else partial, 4: lanczos}[interp]
        vertical, horizontal = taps(new_height, height), taps(new_width, width)
        if x.dtype == np.uint8 and taps is not area:
            pairs = {linear: _neighbours, partial: _covered}.get(taps)
            return (_fixed_point(x, vertical, horizontal, pairs),)
        kind = np.float64 if x.dtype == np.float64 or x.dtype.kind in "iu" else np.float32
        result = _mixed(_mixed(x.astype(kind), horizontal.astype(kind), -2), vertical.astype(kind), -3)
        if x.dtype.kind in "iu":
            limits = np.iinfo(x.dtype)
            # float32 has the halves that sums of thirds miss by the last digits of float64
            result = np.clip(np.rint(result.astype(np.float32)), limits.min, limits.max)
        return (result.astype(x.dtype),)


def _neighbours(new: int, old: int) -> tuple[Array, Array]:
    """The element before each position, −1 before the first one, and how far it is after it."""
    position = (np.arange(new) + 0.5) * (old / new) - 0.5
    low = np.floor(position).astype(np.int64)
    return low, position - low


def _covered(new: int, old: int) -> tuple[Array, Array]:
    """The element that each new one begins in, and the share of the new one that lies after that element."""
    position = np.arange(new)
    low = np.floor(position * (old / new)).astype(np.int64)
    share = (position + 1) - (low + 1) * (new / old)
    return low, np.where(share <= 0, 0.0, share - np.floor(share))


def linear(new: int, old: int) -> Array:
    """The mixing matrix (new, old) of bilinear interpolation."""
    return _placed(*_neighbours(new, old), old, lambda share: (1 - share, share), 0)


def partial(new: int, old: int) -> Array:
    """That of two neighbours, by the parts of the new element that they cover; for enlarging."""
    return _placed(*_covered(new, old), old, lambda share: (1 - share, share), 0)


def cubic(new: int, old: int) -> Array:
    """That of bicubic convolution with a = −3/4 (Keys, 1981)."""
    a = -0.75

    def weights(x: Array) -> Arrays:
        first = ((a * (x + 1) - 5 * a) * (x + 1) + 8 * a) * (x + 1) - 4 * a
        second = ((a + 2) * x - (a + 3)) * x * x + 1
        third = ((a + 2) * (1 - x) - (a + 3)) * (1 - x) * (1 - x) + 1
        return first, second, third, 1 - first - second - third

    return _placed(*_neighbours(new, old), old, weights, -1)


def lanczos(new: int, old: int) -> Array:
    """That of a windowed sinc over eight neighbours (Duchon, 1979), scaled to sum to 1."""

    def weights(share: Array) -> Array:
        distance = np.arange(-3, 5)[:, None] - share
        found = np.sinc(distance) * np.sinc(distance / 4)
        return found / found.sum(0)

    return _placed(*_neighbours(new, old), old, weights, -3)


def _placed(
    low: Array, share: Array, old: int, weights: Callable[[Array], Iterable[Array]], first: int
) -> Array:
    """Weights of neighbours from `low + first` on; beyond the border its element stands in."""
    matrix = np.zeros((len(low), old))
    for k, weight in enumerate(weights(share)):
        np.add.at(matrix, (np.arange(len(low)), np.clip(low + first + k, 0, old - 1)), weight)
    return matrix


def area(new: int, old: int) -> Array:
    """That of the mean over the part of the image that an element covers."""
    edges = np.arange(new + 1) * (old / new)
    low, high = edges[:-1, None], edges[1:, None]
    element = np.arange(old)
    cover = np.clip(np.minimum(high, element + 1) - np.maximum(low, element), 0, 1)
    return cover / cover.sum(1, keepdims=True)


def _mixed(x: Array, matrix: Array, axis: int) -> Array:
    return np.moveaxis(np.tensordot(x, matrix, ((axis,), (1,))), -1, axis)


def _fixed_point(
    x: Array, vertical: Array, horizontal: Array, pairs: Callable[[int, int], tuple[Array, Array]] | None
) -> Array:
    """8-bit images in integers; sums of two rows, placed by `pairs`, lose bits row by row, as 16-bit products do."""
    along = np.rint(horizontal * 2**_BITS).astype(np.int64)
    down = np.rint(vertical * 2**_BITS).astype(np.int64)
    rows = _mixed(x.astype(np.int64), along, -2)
    if pairs is None:
        whole = (_mixed(rows, down, -3) + (1 << (2 * _BITS - 1))) >> (2 * _BITS)
        return np.clip(whole, 0, 255).astype(np.uint8)
    low, share = pairs(*down.shape)
    whole = np.zeros((*rows.shape[:-3], len(down), *rows.shape[-2:]), np.int64)
    for k, weight in enumerate((1 - share, share)):
        row = rows[..., np.clip(low + k, 0, down.shape[1] - 1), :, :]
        weight = np.rint(weight * 2**_BITS).astype(np.int64)
        whole += (weight[:, None, None] * (row >> 4)) >> 16
    return np.clip((whole + 2) >> 2, 0, 255).astype(np.uint8)
