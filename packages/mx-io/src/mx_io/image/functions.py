# SPDX-License-Identifier: Apache-2.0
"""Functions of `mx.image` on single images."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mx_core.errors import ArgumentError, FileFormatError
from mx_core.files import read_bytes
from mx_io import codecs
from mx_io.arrays import to_ndarray, to_numpy
from mx_io.image import geometry
from mx_io.image.geometry import Box, scale_down

if TYPE_CHECKING:
    from mx_ndarray import NDArray

__all__ = [
    "center_crop", "color_normalize", "copyMakeBorder", "fixed_crop", "imdecode", "imread", "imresize", "random_crop",
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
    src: Any,
    size: tuple[int, int],
    area: float | Sequence[float],
    ratio: Sequence[float],
    interp: int = 2,
    **kwargs: Any,
) -> tuple[NDArray, Box]:
    """Cut a random area of random aspect ratio, then resize it to `size` (width, height).

    Parameters
    ----------
    area : float or (float, float)
        Smallest, and largest, share of the image's area.
    ratio : (float, float)
        Smallest and largest aspect ratio, width by height.
    min_area : float, optional
        An old name of `area`, which it replaces.
    """
    image, area = to_numpy(src), geometry.area_of(area, kwargs, "random_size_crop")
    return _cut(image, geometry.random_area_box(image, size, area, ratio), size, interp)


def _cut(image: geometry.Array, box: Box, size: tuple[int, int], interp: int) -> tuple[NDArray, Box]:
    return to_ndarray(geometry.crop(image, box, size, interp)), box


def copyMakeBorder(
    src: Any,
    top: int,
    bot: int,
    left: int,
    right: int,
    type: int = 0,
    value: float = 0.0,
    values: Sequence[float] = (),
) -> NDArray:
    """Put a border around an image.

    Parameters
    ----------
    top, bot, left, right : int
        Pixels of the border on each side, 0 or more.
    type : int
        Of the border: 0 one colour, 1 the outermost pixel again, 2 mirrored, 3 the image from its other side on,
        4 mirrored about the outermost pixel.
    value, values : number, or one a channel
        The colour of type 0; `values` comes first.

    Returns
    -------
    NDArray of the image's type, shape (height + top + bot, width + left + right, channels)
    """
    image = to_numpy(src)
    geometry.check_image(image, "copyMakeBorder")
    if min(top, bot, left, right) < 0 or type not in range(5):
        raise ArgumentError(
            f"[copyMakeBorder] expected borders of 0 or more and a type from 0 to 4, got top {top}, bot {bot}, "
            f"left {left}, right {right}, type {type}"
        )
    around = ((top, bot), (left, right), (0, 0))
    if type:
        modes: dict[int, Any] = {1: "edge", 2: "symmetric", 3: "wrap", 4: "reflect"}
        return to_ndarray(np.pad(image, around, modes[type]))
    channels = image.shape[2]
    if len(values) not in (0, channels):
        raise ArgumentError(
            f"[copyMakeBorder] values: expected {channels} of a channel each, got {len(values)}"
        )
    framed = np.empty((image.shape[0] + top + bot, image.shape[1] + left + right, channels), image.dtype)
    framed[:] = np.asarray(values if len(values) else value).astype(image.dtype)
    framed[top : top + image.shape[0], left : left + image.shape[1]] = image
    return to_ndarray(framed)


def color_normalize(src: Any, mean: Any, std: Any = None) -> NDArray:
    """`(src - mean) / std` in float32; mean and std are numbers or one value a channel."""
    image = to_numpy(src).astype(np.float32)
    if mean is not None:
        image -= to_numpy(mean)
    if std is not None:
        image /= to_numpy(std)
    return to_ndarray(image)
