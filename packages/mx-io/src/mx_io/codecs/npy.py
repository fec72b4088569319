# SPDX-License-Identifier: Apache-2.0
"""Uncompressed images in NumPy's .npy format; objects (pickles) are refused."""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from mx_core.errors import FileFormatError
from mx_io.codecs import check_size, damage_reported, luma


def decode(data: Any, color: int) -> npt.NDArray[np.uint8]:
    """Read uint8 pixels of shape (height, width) or (height, width, 1, 3 or 4)."""
    with damage_reported("npy", data):
        stream = io.BytesIO(data)
        version = np.lib.format.read_magic(stream)
        read = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, fortran, dtype = read(stream)
    body = memoryview(data)[stream.tell() :]
    channels = shape[2] if len(shape) == 3 else 1
    if dtype != np.uint8 or fortran or len(shape) not in (2, 3) or channels not in (1, 3, 4):
        raise FileFormatError(
            f"[npy] expected uint8 of shape (height, width[, 1, 3 or 4]), got {dtype} of shape {shape}"
        )
    check_size(shape[0], shape[1], "npy")
    if len(body) != math.prod(shape):
        raise FileFormatError(f"[npy] expected {math.prod(shape)} bytes of pixels, got {len(body)}")
    pixels = np.frombuffer(body, np.uint8).reshape(shape[0], shape[1], channels)
    if color == 1 and channels != 3:
        pixels = np.repeat(pixels, 3, axis=2) if channels == 1 else pixels[:, :, :3]
    elif color == 0 and channels != 1:
        pixels = luma(pixels)
    return np.ascontiguousarray(pixels)


def encode(image: npt.NDArray[np.uint8], quality: int) -> bytes:
    """Write as is; `quality` has no meaning here."""
    target = io.BytesIO()
    np.save(target, image, allow_pickle=False)
    return target.getvalue()
