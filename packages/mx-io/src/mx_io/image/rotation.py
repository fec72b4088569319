# SPDX-License-Identifier: Apache-2.0
"""Rotation of images around their centre."""

from __future__ import annotations

from numbers import Number
from typing import Any

import numpy as np

from mx_core.errors import ArgumentError, DTypeError, ShapeError
from mx_ndarray import NDArray, nd


def imrotate(src: NDArray, rotation_degrees: Any, zoom_in: bool = False, zoom_out: bool = False) -> NDArray:
    """Rotates an image, or each of several by an angle of its own; what was outside of it is 0.

    Parameters
    ----------
    src : NDArray of float32
        Of shape (channels, height, width), or (images, channels, height, width).
    rotation_degrees : float or array
        Of each image, anticlockwise on the screen.
    zoom_in, zoom_out : bool
        Enlarge so that nothing outside is seen, or shrink so that everything is.

    Raises
    ------
    ArgumentError  both are asked for, or there are not as many angles as images
    DTypeError     the array is not float32, or the angle of one image is no number
    ShapeError     the array has another number of axes
    """
    if zoom_in and zoom_out:
        raise ArgumentError("[imrotate] `zoom_in` and `zoom_out` cannot be both True")
    if np.dtype(src.dtype) != np.float32:
        raise DTypeError(f"[imrotate] src: expected float32, got {np.dtype(src.dtype).name}")
    if src.ndim not in (3, 4):
        raise ShapeError(f"[imrotate] src: expected 3 or 4 axes, got shape {src.shape}")
    if src.ndim == 3:
        if not isinstance(rotation_degrees, Number):
            raise DTypeError(
                f"[imrotate] rotation_degrees: expected a number for one image, got {rotation_degrees!r}"
            )
        batch: NDArray = src.expand_dims(axis=0)
        rotated: NDArray = imrotate(batch, rotation_degrees, zoom_in, zoom_out)[0]
        return rotated
    count, _, height, width = src.shape
    given = rotation_degrees.asnumpy() if isinstance(rotation_degrees, NDArray) else rotation_degrees
    degrees = (
        np.full(count, given, np.float32) if isinstance(given, Number) else np.asarray(given, np.float32)
    )
    if degrees.shape != (count,):
        raise ArgumentError(
            f"[imrotate] the number of images must be equal to the number of rotation angles: got {count} and shape "
            f"{degrees.shape}"
        )
    grid = _grid(np.deg2rad(degrees), height, width, zoom_in, zoom_out)
    sampled: NDArray = nd.BilinearSampler(src, nd.array(grid, src.context, "float32"))
    return sampled


def random_rotate(
    src: NDArray, angle_limits: tuple[float, float], zoom_in: bool = False, zoom_out: bool = False
) -> NDArray:
    """Rotates by angles that `numpy.random` draws between two limits, for each image another; else as `imrotate`."""
    angles = np.random.uniform(*angle_limits, size=None if src.ndim == 3 else src.shape[0])
    return imrotate(src, angles, zoom_in, zoom_out)


def _grid(angles: Any, height: int, width: int, zoom_in: bool, zoom_out: bool) -> Any:
    """Where in the source each pixel comes from: (images, 2, height, width), x first, from −1 to 1."""
    y, x = np.mgrid[:height, :width].astype(np.float32)
    x_half, y_half = (width - 1) / 2, (height - 1) / 2
    x, y = x - x_half, y - y_half
    cos, sin = (f(angles)[:, None, None] for f in (np.cos, np.sin))
    with np.errstate(divide="ignore", invalid="ignore"):  # of one row or column there is no other
        grid = np.stack([(x * cos - y * sin) / x_half, (x * sin + y * cos) / y_half], axis=1)
    if zoom_in or zoom_out:
        grid *= _scale(np.abs(angles), height, width, zoom_out)[:, None, None, None]
    return grid


def _scale(angles: Any, height: int, width: int, whole: bool) -> Any:
    """How much of the source is seen: from the extents of the rotated corners."""
    radius, corner = np.hypot(height, width), np.arctan(height / width)
    extents = [
        np.maximum(np.abs(radius * f(corner + angles)), np.abs(radius * f(corner - angles)))
        for f in (np.cos, np.sin)
    ]
    if whole:
        return np.maximum(extents[0] / width, extents[1] / height)
    return np.minimum(width / extents[0], height / extents[1])
