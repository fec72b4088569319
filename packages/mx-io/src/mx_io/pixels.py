# SPDX-License-Identifier: Apache-2.0
"""Geometry of decoded images: uint8 NumPy arrays of shape (height, width, channels)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mx_io import _core

Pixels = npt.NDArray[np.uint8]


def resize(image: Pixels, width: int, height: int, interp: int = 1) -> Pixels:
    """Resize without the GIL.

    Parameters
    ----------
    interp : int
        0 nearest, 1 bilinear, 2 bicubic, 3 area, 4 Lanczos over 8 x 8 pixels, 9 chosen by direction.
    """
    resized: Pixels = _core.resize(np.ascontiguousarray(image), height, width, interp)
    return resized


def short_side(height: int, width: int, size: int) -> tuple[int, int]:
    """(height, width) scaled so that the shorter side is `size`; the longer is rounded down."""
    if height > width:
        return size * height // width, size
    return size, size * width // height


def resize_short(image: Pixels, size: int, interp: int = 1) -> Pixels:
    """Resize so that the shorter side is `size` pixels."""
    height, width = short_side(image.shape[0], image.shape[1], size)
    return resize(image, max(width, 1), max(height, 1), interp)


def center_square(image: Pixels) -> Pixels:
    """The largest square in the middle, a view."""
    height, width = image.shape[:2]
    side = min(height, width)
    y, x = (height - side) // 2, (width - side) // 2
    return image[y : y + side, x : x + side]
