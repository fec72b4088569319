# SPDX-License-Identifier: Apache-2.0
"""The orientation that cameras note in a JPEG file's EXIF block."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt

_ORIENTATION_TAG = 0x0112


def jpeg_orientation(data: Any) -> int:
    """EXIF orientation, 1 to 8; 1 (upright) where there is none or it cannot be read."""
    view = memoryview(data)
    position = 2
    while position + 4 <= len(view) and view[position] == 0xFF:
        marker = view[position + 1]
        (length,) = struct.unpack_from(">H", view, position + 2)
        if length < 2 or not (0xE0 <= marker <= 0xEF or marker == 0xFE):
            return 1  # application data and comments come first
        if marker == 0xE1 and bytes(view[position + 4 : position + 10]) == b"Exif\0\0":
            return _orientation(view[position + 10 : position + 2 + length])
        position += 2 + length
    return 1


def _orientation(tiff: memoryview) -> int:
    order = {b"II": "<", b"MM": ">"}.get(bytes(tiff[:2]))
    try:
        if order is None:
            return 1
        (directory,) = struct.unpack_from(order + "I", tiff, 4)
        (entries,) = struct.unpack_from(order + "H", tiff, directory)
        for i in range(entries):
            tag, _, _, value = struct.unpack_from(order + "HHIH", tiff, directory + 2 + 12 * i)
            if tag == _ORIENTATION_TAG:
                return value if 1 <= value <= 8 else 1
    except struct.error:  # a damaged block says nothing about the image
        return 1
    return 1


def upright(pixels: npt.NDArray[np.uint8], orientation: int) -> npt.NDArray[np.uint8]:
    """Turn and mirror (height, width, channels) pixels as an EXIF orientation asks."""
    if orientation == 1:
        return pixels
    if orientation in (5, 6, 7, 8):
        pixels = pixels.transpose(1, 0, 2)
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    return np.ascontiguousarray(pixels)
