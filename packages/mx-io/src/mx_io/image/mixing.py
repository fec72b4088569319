# SPDX-License-Identifier: Apache-2.0
"""Resizing of images that are not 8-bit: rows and columns as weighted sums, in floating point."""

from __future__ import annotations

from typing import Any

import numpy as np

from mx_core.errors import ArgumentError

Array = np.ndarray[Any, Any]


def resize(image: Array, width: int, height: int, interp: int) -> Array:
    """An image (height, width, channels) of any element type but uint8, in another size.

    Results are those of OpenCV's `resize` of floating-point images. Integers are rounded.

    Parameters
    ----------
    interp : int
        0 nearest, 1 bilinear, 2 bicubic, 3 area, 4 Lanczos over 8 x 8 pixels, 9 chosen by direction.

    Raises
    ------
    ArgumentError  another method, or a side below 1
    """
    if min(width, height) < 1:
        raise ArgumentError(f"[imresize] expected sides of 1 or more, got width {width}, height {height}")
    old = image.shape[:2]
    if interp == 9:
        interp = 3 if height < old[0] and width < old[1] else 2 if height > old[0] and width > old[1] else 1
    smaller = height <= old[0] and width <= old[1]
    kind: Any = np.float64 if image.dtype.kind in "iub" or image.dtype.itemsize > 4 else np.float32
    if interp == 0:
        rows, columns = (
            np.minimum(np.arange(new) * (had / new), had - 1).astype(np.int64)
            for new, had in zip((height, width), old, strict=True)
        )
        nearest: Array = image[rows[:, None], columns]
        return nearest
    make = {1: _linear, 2: _cubic, 3: _area if smaller else _partial, 4: _lanczos}.get(interp)
    if make is None:
        raise ArgumentError(f"[imresize] interp: expected 0 to 4 or 9, got {interp}")
    down, along = (make(new, had).astype(kind) for new, had in zip((height, width), old, strict=True))
    mixed: Array = np.einsum("hy,yxc,wx->hwc", down, image.astype(kind), along, optimize=True)
    if image.dtype.kind in "iub":
        limits = None if image.dtype.kind == "b" else np.iinfo(image.dtype)
        mixed = np.clip(np.rint(mixed), *((limits.min, limits.max) if limits else (0, 1)))
    made: Array = mixed.astype(image.dtype)
    return made


# ---- for each new element the weights of the old ones, (new, old) ----


def _placed(low: Array, weights: Array, first: int, old: int) -> Array:
    """Weights (taps, new) of the old elements from `low + first` on; beyond the border its element stands in."""
    made, taps = np.zeros((len(low), old)), np.arange(len(weights))[:, None]
    np.add.at(made, (np.arange(len(low)), np.clip(low + first + taps, 0, old - 1)), weights)
    return made


def _positions(new: int, old: int) -> tuple[Array, Array]:
    """The old element before the middle of each new one, and how far the middle is after it."""
    middle = (np.arange(new) + 0.5) * (old / new) - 0.5
    low = np.floor(middle).astype(np.int64)
    return low, middle - low


def _linear(new: int, old: int) -> Array:
    low, after = _positions(new, old)
    return _placed(low, np.array([1 - after, after]), 0, old)


def _partial(new: int, old: int) -> Array:
    """For enlarging by area: two old elements, by the parts of the new one that they cover."""
    place = np.arange(new)
    low = np.floor(place * (old / new)).astype(np.int64)
    after = (place + 1) - (low + 1) * (new / old)
    after = np.where(after <= 0, 0.0, after - np.floor(after))
    return _placed(low, np.array([1 - after, after]), 0, old)


def _cubic(new: int, old: int) -> Array:
    """Source: Keys, Cubic Convolution Interpolation for Digital Image Processing, 1981, with a = −3/4."""
    a = -0.75
    low, after = _positions(new, old)

    def far(x: Array) -> Array:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    def near(x: Array) -> Array:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    return _placed(low, np.array([far(after + 1), near(after), near(1 - after), far(2 - after)]), -1, old)


def _lanczos(new: int, old: int) -> Array:
    """Source: Duchon, Lanczos Filtering in One and Two Dimensions, 1979; eight elements, weights of sum 1."""
    low, after = _positions(new, old)
    away = np.arange(-3, 5)[:, None] - after
    weights = np.sinc(away) * np.sinc(away / 4)
    return _placed(low, weights / weights.sum(0), -3, old)


def _area(new: int, old: int) -> Array:
    edges = np.arange(new + 1) * (old / new)
    place = np.arange(old)
    covered = np.minimum(edges[1:, None], place + 1) - np.maximum(edges[:-1, None], place)
    covered = np.clip(covered, 0, None)
    made: Array = covered / covered.sum(1, keepdims=True)
    return made
