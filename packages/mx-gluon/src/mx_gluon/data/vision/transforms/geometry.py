# SPDX-License-Identifier: Apache-2.0
"""Crops, sizes, flips and rotations."""

from __future__ import annotations

from numbers import Number
from typing import Any

import numpy as np

from mx_core.errors import ArgumentError, DTypeError
from mx_gluon.block import Block, HybridBlock
from mx_io import image
from mx_ndarray import NDArray


class Resize(HybridBlock):
    """Resizes images of shape (height, width, channels), or several of one size.

    Threads: any.

    Parameters
    ----------
    size : int or (width, height)
    keep_ratio : bool
        With one number: it is the shorter side, and the longer one follows.
    interpolation : int
        0 nearest, 1 linear, 2 cubic, 3 by area, 4 Lanczos.
    """

    def __init__(self, size: int | tuple[int, int], keep_ratio: bool = False, interpolation: int = 1) -> None:
        super().__init__()
        self._args = (size, keep_ratio, interpolation)

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """An image or several."""
        return F.image.resize(x, *self._args)


class CropResize(HybridBlock):
    """Cuts a box out of images, and resizes it.

    Threads: any.

    Parameters
    ----------
    x, y : int
        The left upper corner.
    width, height : int
        Of the box.
    size : int or (width, height), optional
        Of the result; without it the box stays as it is.
    interpolation : int, optional
        As of `Resize`.
    """

    def __init__(
        self,
        x: int,
        y: int,
        width: int,
        height: int,
        size: int | tuple[int, int] | None = None,
        interpolation: int | None = None,
    ) -> None:
        super().__init__()
        self._box = (x, y, width, height)
        self._size, self._interpolation = size, interpolation

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """An image or several."""
        out = F.image.crop(x, *self._box)
        return F.image.resize(out, self._size, False, self._interpolation or 1) if self._size else out


class CenterCrop(Block):
    """Cuts out the middle; what is smaller is enlarged.

    Threads: any.

    Parameters
    ----------
    size : int or (width, height)
    interpolation : int
        As of `Resize`.
    """

    def __init__(self, size: int | tuple[int, int], interpolation: int = 1) -> None:
        super().__init__()
        self._args = (_pair(size), interpolation)

    def forward(self, x: NDArray, *args: Any) -> NDArray:
        """An image."""
        return image.center_crop(x, *self._args)[0]


class RandomResizedCrop(Block):
    """Cuts out a random box and resizes it. Python's `random` draws it.

    Threads: any.

    Parameters
    ----------
    size : int or (width, height)
        Of the result.
    scale : (float, float)
        Limits of the box's share of the area.
    ratio : (float, float)
        Limits of width / height.
    interpolation : int
        As of `Resize`.
    """

    def __init__(
        self,
        size: int | tuple[int, int],
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
        interpolation: int = 1,
    ) -> None:
        super().__init__()
        self._args = (_pair(size), scale, ratio, interpolation)

    def forward(self, x: NDArray, *args: Any) -> NDArray:
        """An image."""
        return image.random_size_crop(x, *self._args)[0]


class RandomFlipLeftRight(HybridBlock):
    """Mirrors with probability 1/2.

    Threads: any.
    """

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """An image."""
        return F.image.random_flip_left_right(x)


class RandomFlipTopBottom(HybridBlock):
    """Turns upside down with probability 1/2.

    Threads: any.
    """

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """An image."""
        return F.image.random_flip_top_bottom(x)


class Rotate(Block):
    """Rotates images after `ToTensor`: float32 of shape (C, H, W) or (N, C, H, W).

    Threads: any.

    Parameters
    ----------
    rotation_degrees : float
    zoom_in, zoom_out : bool
        As of `mx.image.imrotate`.
    """

    def __init__(self, rotation_degrees: float, zoom_in: bool = False, zoom_out: bool = False) -> None:
        super().__init__()
        self._args = (rotation_degrees, zoom_in, zoom_out)

    def forward(self, x: NDArray, *args: Any) -> NDArray:
        """An image or several."""
        _expect_float(x, self)
        return image.imrotate(x, *self._args)


class RandomRotation(Block):
    """Rotates images after `ToTensor` by random angles, which `numpy.random` draws.

    Threads: any.

    Parameters
    ----------
    angle_limits : (float, float)
        In degrees.
    zoom_in, zoom_out : bool
        As of `mx.image.imrotate`.
    rotate_with_proba : float
        The probability of a rotation at all.

    Raises
    ------
    ArgumentError  the limits are not in order, or the probability is none
    """

    def __init__(
        self,
        angle_limits: tuple[float, float],
        zoom_in: bool = False,
        zoom_out: bool = False,
        rotate_with_proba: float = 1.0,
    ) -> None:
        super().__init__()
        lower, upper = angle_limits
        if lower >= upper:
            raise ArgumentError(
                f"[RandomRotation] angle_limits: expected the smaller one first, got {angle_limits}"
            )
        if not 0 <= rotate_with_proba <= 1:
            raise ArgumentError(
                f"[RandomRotation] rotate_with_proba: expected a number from 0 to 1, got {rotate_with_proba}"
            )
        self._args = ((lower, upper), zoom_in, zoom_out)
        self._probability = rotate_with_proba

    def forward(self, x: NDArray, *args: Any) -> NDArray:
        """An image or several."""
        if np.random.random() > self._probability:
            return x
        _expect_float(x, self)
        return image.random_rotate(x, *self._args)


def _pair(size: int | tuple[int, int]) -> tuple[int, int]:
    return (int(size), int(size)) if isinstance(size, Number) else size  # type: ignore[return-value]


def _expect_float(x: NDArray, transform: Block) -> None:
    if np.dtype(x.dtype) != np.float32:
        raise DTypeError(
            f"[{type(transform).__name__}] expected float32, got {np.dtype(x.dtype).name}: it comes after ToTensor"
        )
