# SPDX-License-Identifier: Apache-2.0
"""PNG, BMP and WebP by Pillow, which decodes and encodes without the GIL.

Only these formats: each further decoder of Pillow is further code that untrusted bytes can reach.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageFile

from mx_core.errors import ArgumentError, FileFormatError, ShapeError
from mx_io.codecs import check_size, damage_reported

#: a byte of deflated data stands for at most this many
_MOST_DEFLATED = 1033
#: pixels a byte of a WebP file: photographs of the worst quality have some 400; images of one colour may have more, up
#: to a size that costs little memory
_MOST_WEBP, _FEW_PIXELS = 1024, 1 << 21
#: pixels of a run in a compressed BMP file
_MOST_BMP = 255


def decode_png(data: Any, color: int) -> npt.NDArray[np.uint8]:
    """Decode a PNG image; 16-bit channels keep their upper 8 bits."""
    return _decode(data, color, "PNG")


def decode_bmp(data: Any, color: int) -> npt.NDArray[np.uint8]:
    """Decode a BMP image."""
    return _decode(data, color, "BMP")


def decode_webp(data: Any, color: int) -> npt.NDArray[np.uint8]:
    """Decode a WebP image; of an animation its first picture."""
    height, width = _webp_size(bytes(data[:30]))  # Pillow takes memory for all pixels when it opens one
    check_size(height, width, "webp")
    if height * width > (most := _FEW_PIXELS + _MOST_WEBP * len(data)):
        raise FileFormatError(
            f"[webp] {height} x {width}: expected at most {most} pixels in {len(data)} bytes of file"
        )
    return _decode(data, color, "WEBP")


def _webp_size(head: bytes) -> tuple[int, int]:
    """Height and width that the first chunk of a WebP file tells (RFC 9649, section 2)."""
    kind = head[12:16]
    if kind == b"VP8X" and len(head) >= 30:
        return int.from_bytes(head[27:30], "little") + 1, int.from_bytes(head[24:27], "little") + 1
    if kind == b"VP8L" and len(head) >= 25:
        bits = int.from_bytes(head[21:25], "little")
        return (bits >> 14 & 0x3FFF) + 1, (bits & 0x3FFF) + 1
    if kind == b"VP8 " and len(head) >= 30:
        return (
            int.from_bytes(head[28:30], "little") & 0x3FFF,
            int.from_bytes(head[26:28], "little") & 0x3FFF,
        )
    raise FileFormatError(f"[webp] expected a chunk of pixels, got {kind!r} in {len(head)} bytes")


def _decode(data: Any, color: int, kind: str) -> npt.NDArray[np.uint8]:
    with damage_reported(kind.lower(), data), Image.open(io.BytesIO(data), formats=[kind]) as image:
        check_size(image.height, image.width, kind.lower())
        if kind == "PNG":
            _check_png(bytes(data[:26]), len(data), image.width, image.height)
        elif kind == "BMP":
            _check_bmp(image, len(data))
        if image.mode.startswith("I"):  # 16 bits a channel; Pillow's own conversion clips instead of scaling
            wide = np.asarray(image)
            grey = (wide >> 8).astype(np.uint8)[:, :, None]
            return np.repeat(grey, 3, axis=2) if color == 1 else grey
        mode = {1: "RGB", 0: "L"}.get(color) or _stored_mode(image)
        pixels = np.asarray(image if image.mode == mode else image.convert(mode))
    return pixels[:, :, None] if pixels.ndim == 2 else pixels


def _check_png(head: bytes, size: int, width: int, height: int) -> None:
    """Refuses more pixels than deflated data of this size can contain: Pillow would fill up the rest."""
    depth, channels = head[24], {2: 3, 4: 2, 6: 4}.get(head[25], 1)
    needed = height * (width * channels * depth // 8)
    if needed > _MOST_DEFLATED * size:
        raise FileFormatError(
            f"[png] {height} x {width}: expected {needed} bytes of pixels, got {size} bytes of file, "
            f"which hold at most {_MOST_DEFLATED * size}"
        )


def _check_bmp(image: ImageFile.ImageFile, size: int) -> None:
    """Refuses more pixels than the file has bytes for, or than runs of 255 give: Pillow would take memory first."""
    decoder, _, offset, arguments = image.tile[0]
    if decoder == "raw" and isinstance(arguments, tuple):
        needed = image.height * arguments[1] - 3  # rows fill words, the last one perhaps not
        if needed > size - offset:
            raise FileFormatError(
                f"[bmp] {image.height} x {image.width}: expected {needed} bytes of pixels, got {max(0, size - offset)}"
            )
    elif image.height * image.width > (most := _FEW_PIXELS + _MOST_BMP * size):
        raise FileFormatError(
            f"[bmp] {image.height} x {image.width}: expected at most {most} pixels in {size} bytes of file"
        )


def _stored_mode(image: Image.Image) -> str:
    transparent = "transparency" in image.info
    if image.mode in ("1", "L") and not transparent:
        return "L"
    return "RGBA" if transparent or image.mode in ("RGBA", "LA", "PA") else "RGB"


def encode_png(image: npt.NDArray[np.uint8], quality: int) -> bytes:
    """Encode losslessly; `quality` is the compression level, 0 (none) to 9.

    Values above 9, as a quality meant for JPEG would be, give level 3.
    """
    if quality < 0:
        raise ArgumentError(f"[png] quality: expected a compression level from 0 to 9, got {quality}")
    return _encode(image, "PNG", compress_level=quality if quality <= 9 else 3)


def encode_bmp(image: npt.NDArray[np.uint8], quality: int) -> bytes:
    """Encode uncompressed; `quality` has no meaning here."""
    return _encode(image, "BMP")


def encode_webp(image: npt.NDArray[np.uint8], quality: int) -> bytes:
    """Encode at quality 1 to 100."""
    if not 1 <= quality <= 100:
        raise ArgumentError(f"[webp] quality: expected 1 to 100, got {quality}")
    if max(image.shape[:2]) > 16383:
        raise ShapeError(f"[webp] expected sides of at most 16383 pixels, got shape {image.shape}")
    return _encode(image, "WEBP", quality=quality)


def _encode(image: npt.NDArray[np.uint8], kind: str, **options: Any) -> bytes:
    target = io.BytesIO()
    Image.fromarray(image[:, :, 0] if image.shape[2] == 1 else image).save(target, kind, **options)
    return target.getvalue()
