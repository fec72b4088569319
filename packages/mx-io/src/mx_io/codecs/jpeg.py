# SPDX-License-Identifier: Apache-2.0
"""JPEG by libjpeg-turbo (simplejpeg): decodes and encodes without the GIL."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import simplejpeg

from mx_core.errors import ArgumentError, ShapeError
from mx_io.codecs import LeastScale, check_size, damage_reported, luma
from mx_io.codecs.orientation import jpeg_orientation, upright


def decode(data: Any, color: int, least_scale: LeastScale | None = None) -> npt.NDArray[np.uint8]:
    """Decode; images with an EXIF orientation are rotated upright unless `color` is -1.

    With `least_scale` the image may come at a half, a quarter or an eighth of its size.
    """
    with damage_reported("jpeg", data):
        height, width, stored, _ = simplejpeg.decode_jpeg_header(data, strict=False)
        check_size(height, width, "jpeg")
        if stored.upper() in ("CMYK", "YCCK"):
            pixels = _from_inks(_decode(data, "CMYK"), color)
        else:
            grey = color == 0 or (color == -1 and stored.upper() == "GRAY")
            scaled = {} if least_scale is None else _smaller(data, color, height, width, least_scale)
            pixels = _decode(data, "GRAY" if grey else "RGB", **scaled)
    return pixels if color == -1 else upright(pixels, jpeg_orientation(data))


def _smaller(data: Any, color: int, height: int, width: int, least_scale: LeastScale) -> dict[str, int]:
    """What the library needs for decoding at the least of 1/2, 1/4 and 1/8 that is allowed; nothing for the whole."""
    turned = color != -1 and jpeg_orientation(data) >= 5
    scale = least_scale(width, height) if turned else least_scale(height, width)
    divisor = next((divisor for divisor in (8, 4, 2) if scale * divisor <= 1), 1)
    if divisor == 1:
        return {}
    return {"min_height": -(-height // divisor), "min_width": -(-width // divisor), "min_factor": divisor}


def _decode(data: Any, colorspace: str, **scaled: int) -> npt.NDArray[np.uint8]:
    pixels: npt.NDArray[np.uint8]
    try:
        pixels = simplejpeg.decode_jpeg(data, colorspace=colorspace, **scaled)
    except ValueError as error:
        # Stray bytes between two markers lose no pixel, and some cameras write them; truncation does.
        if "extraneous bytes" not in str(error):
            raise
        pixels = simplejpeg.decode_jpeg(data, colorspace=colorspace, strict=False, **scaled)
    return pixels


def _from_inks(inks: npt.NDArray[np.uint8], color: int) -> npt.NDArray[np.uint8]:
    """Red, green, blue (or grey) of CMYK pixels, stored inverted as Adobe's programs do."""
    wide = inks.astype(np.uint16)
    pixels = ((wide[:, :, :3] * wide[:, :, 3:] + 127) // 255).astype(np.uint8)
    return pixels if color != 0 else luma(pixels)


def encode(image: npt.NDArray[np.uint8], quality: int) -> bytes:
    """Encode at quality 1 to 100, with halved colour resolution as most encoders do."""
    if not 1 <= quality <= 100:
        raise ArgumentError(f"[jpeg] quality: expected 1 to 100, got {quality}")
    if max(image.shape[:2]) > 65535:
        raise ShapeError(f"[jpeg] expected sides of at most 65535 pixels, got shape {image.shape}")
    if image.shape[2] == 4:
        image = np.ascontiguousarray(image[:, :, :3])
    grey = image.shape[2] == 1
    subsampling = "Gray" if grey else "420"
    return bytes(simplejpeg.encode_jpeg(image, quality, "GRAY" if grey else "RGB", subsampling))
