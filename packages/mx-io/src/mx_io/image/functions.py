# SPDX-License-Identifier: Apache-2.0
"""Functions of `mx.image` on single images."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mx_core.errors import FileFormatError
from mx_core.files import read_bytes
from mx_io import codecs
from mx_io.arrays import to_ndarray, to_numpy
from mx_io.image import geometry
from mx_io.image.geometry import Box, scale_down

if TYPE_CHECKING:
    from mx_ndarray import NDArray

__all__ = [
    "center_crop", "color_normalize", "fixed_crop", "imdecode", "imread", "imresize", "random_crop",
    "random_size_crop", "resize_short", "scale_down",
]  # fmt: skip


def imdecode(buf: Any, flag: int = 1, to_rgb: bool | int = True) -> NDArray:
    """Decode an image.

    Parameters
    ----------
    buf : bytes-like, or array of uint8
    flag : {1, 0, -1}
        1 three channels, 0 grey, -1 as stored.
    to_rgb : bool
        Red first; otherwise blue first.

    Returns
    -------
    NDArray of uint8, shape (height, width, channels)

    Raises
    ------
    FileFormatError
        No installed codec knows the format, or the data are damaged.
    """
    data = (
        buf if isinstance(buf, bytes | bytearray | memoryview) else to_numpy(buf).astype(np.uint8).tobytes()
    )
    image = codecs.decode(data, flag)
    if not to_rgb and image.shape[2] >= 3:
        image = image[:, :, [2, 1, 0, 3][: image.shape[2]]]
    return to_ndarray(image)


def imread(filename: str | os.PathLike[str], flag: int = 1, to_rgb: bool | int = True) -> NDArray:
    """Read and decode an image file; parameters as for `imdecode`."""
    try:
        return imdecode(read_bytes(filename), flag, to_rgb)
    except FileFormatError as error:
        raise FileFormatError(f"[imread] {os.fspath(filename)}: {error}") from error


def imresize(src: Any, w: int, h: int, interp: int = 1) -> NDArray:
    """Resize to `w` x `h` pixels.

    Parameters
    ----------
    src : array, shape (height, width, channels)
    interp : int
        0 nearest, 1 bilinear, 2 bicubic, 3 area, 4 Lanczos, 9 by direction (area to shrink, bicubic to grow),
        10 a random one of 0 to 4.
    """
    return to_ndarray(geometry.resize(to_numpy(src), w, h, interp))


def resize_short(src: Any, size: int, interp: int = 2) -> NDArray:
    """Resize so that the shorter side has `size` pixels."""
    return to_ndarray(geometry.resize_short(to_numpy(src), size, interp))


def fixed_crop(
    src: Any, x0: int, y0: int, w: int, h: int, size: tuple[int, int] | None = None, interp: int = 2
) -> NDArray:
    """Cut out `w` x `h` pixels at (`x0`, `y0`); resize them to `size` (width, height) if given."""
    return to_ndarray(geometry.crop(to_numpy(src), (x0, y0, w, h), size, interp))


def center_crop(src: Any, size: tuple[int, int], interp: int = 2) -> tuple[NDArray, Box]:
    """Cut `size` (width, height) from the middle, growing what is too small.

    Returns
    -------
    image : NDArray
    box : tuple of int
        x0, y0, width and height of what was cut.
    """
    image = to_numpy(src)
    return _cut(image, geometry.center_box(image, size), size, interp)


def random_crop(src: Any, size: tuple[int, int], interp: int = 2) -> tuple[NDArray, Box]:
    """Cut `size` (width, height) from a random place; returns as `center_crop`."""
    image = to_numpy(src)
    return _cut(image, geometry.random_box(image, size), size, interp)


def random_size_crop(
    src: Any, size: tuple[int, int], area: float | Sequence[float], ratio: Sequence[float], interp: int = 2
) -> tuple[NDArray, Box]:
    """Cut a random area of random aspect ratio, then resize it to `size` (width, height).

    Parameters
    ----------
    area : float or (float, float)
        Smallest, and largest, share of the image's area.
    ratio : (float, float)
        Smallest and largest aspect ratio, width by height.
    """
    image = to_numpy(src)
    return _cut(image, geometry.random_area_box(image, size, area, ratio), size, interp)


def _cut(image: geometry.Array, box: Box, size: tuple[int, int], interp: int) -> tuple[NDArray, Box]:
    return to_ndarray(geometry.crop(image, box, size, interp)), box


def color_normalize(src: Any, mean: Any, std: Any = None) -> NDArray:
    """`(src - mean) / std` in float32; mean and std are numbers or one value a channel."""
    image = to_numpy(src).astype(np.float32)
    if mean is not None:
        image -= to_numpy(mean)
    if std is not None:
        image /= to_numpy(std)
    return to_ndarray(image)
