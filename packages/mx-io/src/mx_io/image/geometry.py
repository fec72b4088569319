# SPDX-License-Identifier: Apache-2.0
"""Resizing and cropping of NumPy images of any element type; what functions and augmenters share.

Random choices come from Python's `random` module, as MXNet's do: `random.seed` makes them reproducible.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core.errors import ArgumentError, ShapeError
from mx_io import pixels
from mx_io.image import mixing

Array = np.ndarray[Any, Any]
#: Place and size of a crop: x0, y0, width, height.
Box = tuple[int, int, int, int]


def check_image(image: Array, function: str) -> None:
    """ShapeError unless the array is (height, width, channels) and not empty."""
    if image.ndim != 3 or image.size == 0:
        raise ShapeError(f"[{function}] src: expected (height, width, channels), got shape {image.shape}")


def resize(image: Array, width: int, height: int, interp: int = 1) -> Array:
    """Resize; results have the element type of the image."""
    check_image(image, "imresize")
    if interp == 10:
        interp = random.randint(0, 4)
    if image.dtype == np.uint8:
        return pixels.resize(image, width, height, interp)
    return mixing.resize(image, width, height, interp)


def resize_short(image: Array, size: int, interp: int) -> Array:
    """Resize so that the shorter side is `size`."""
    height, width = pixels.short_side(image.shape[0], image.shape[1], size)
    return resize(image, max(width, 1), max(height, 1), interp)


def scale_down(src_size: tuple[int, int], size: tuple[int, int]) -> tuple[int, int]:
    """A (width, height) in the ratio of `size` that fits into `src_size`; `size` itself if it does."""
    width, height = float(size[0]), float(size[1])
    if src_size[1] < height:
        width, height = width * src_size[1] / height, float(src_size[1])
    if src_size[0] < width:
        width, height = float(src_size[0]), height * src_size[0] / width
    return int(width), int(height)


def crop(image: Array, box: Box, size: tuple[int, int] | None, interp: int) -> Array:
    """Cut out a box, then resize to `size` (width, height) if that is another."""
    check_image(image, "fixed_crop")
    x0, y0, width, height = box
    if (
        x0 < 0
        or y0 < 0
        or width < 1
        or height < 1
        or x0 + width > image.shape[1]
        or y0 + height > image.shape[0]
    ):
        raise ArgumentError(
            f"[fixed_crop] expected a box inside {image.shape[1]} x {image.shape[0]} pixels, "
            f"got x0={x0}, y0={y0}, w={width}, h={height}"
        )
    cut = image[y0 : y0 + height, x0 : x0 + width]
    if size is not None and (width, height) != tuple(size):
        return resize(cut, size[0], size[1], interp)
    return np.ascontiguousarray(cut)


def center_box(image: Array, size: tuple[int, int]) -> Box:
    """The box of `size` (width, height), scaled down to fit, in the middle."""
    height, width = image.shape[:2]
    w, h = _fitting(width, height, size)
    return (width - w) // 2, (height - h) // 2, w, h


def random_box(image: Array, size: tuple[int, int]) -> Box:
    """The box of `size` (width, height), scaled down to fit, at a random place."""
    height, width = image.shape[:2]
    w, h = _fitting(width, height, size)
    return random.randint(0, width - w), random.randint(0, height - h), w, h


def _fitting(width: int, height: int, size: tuple[int, int]) -> tuple[int, int]:
    w, h = scale_down((width, height), size)
    return max(w, 1), max(h, 1)


def area_of(area: float | Sequence[float], others: dict[str, Any], function: str) -> float | Sequence[float]:
    """The area of a random crop, which `min_area` among other arguments replaces, as in old programs."""
    given = dict(others)
    area = given.pop("min_area", area)
    if given:
        raise TypeError(f"[{function}] got an unexpected keyword argument {next(iter(given))!r}")
    return area


def random_area_box(
    image: Array, size: tuple[int, int], area: float | Sequence[float], ratio: Sequence[float]
) -> Box:
    """A box of random area and aspect ratio, after at most ten tries; else the box in the middle."""
    height, width = image.shape[:2]
    low, high = (area, 1.0) if isinstance(area, int | float) else area
    for _ in range(10):
        target = random.uniform(low, high) * height * width
        aspect = math.exp(random.uniform(math.log(ratio[0]), math.log(ratio[1])))
        w, h = round(math.sqrt(target * aspect)), round(math.sqrt(target / aspect))
        if 0 < w <= width and 0 < h <= height:
            return random.randint(0, width - w), random.randint(0, height - h), w, h
    return center_box(image, size)
