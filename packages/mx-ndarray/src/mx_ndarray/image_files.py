# SPDX-License-Identifier: Apache-2.0
"""`nd.imdecode`: images in the layout of networks, by the installed codecs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core import plugins
from mx_core.errors import ArgumentError, FileFormatError, MXNetError, PluginError, ShapeError
from mx_core.exits import exits_refused
from mx_core.signals import let_pass
from mx_ndarray.creation import array
from mx_ndarray.ndarray import NDArray

_HEAD_BYTES = 64  # what a codec recognises its format by


def imdecode(
    str_img: bytes,
    clip_rect: Sequence[int] = (0, 0, 0, 0),
    out: NDArray | None = None,
    index: int = 0,
    channels: int = 3,
    mean: NDArray | None = None,
) -> NDArray:
    """Decode an image to float32 (channels, height, width), red first.

    Parameters
    ----------
    str_img : bytes
        The contents of an image file.
    clip_rect : (x0, y0, x1, y1)
        The part to be taken, in pixels; four zeros are all.
    out : NDArray
        (channels, height, width), or (n, channels, height, width) of which image `index` is written.
    channels : {1, 3}
        Grey, or colours.
    mean : NDArray
        Subtracted from the result; of its shape, or one that broadcasts to it.

    Raises
    ------
    FileFormatError
        No installed codec knows the format, or the data are damaged.
    ShapeError
        `clip_rect` lies outside of the image, or `out` is of another shape.
    """
    if channels not in (1, 3):
        raise ArgumentError(f"[imdecode] channels: expected 1 or 3, got {channels!r}")
    pixels = _clipped(_decode(bytes(str_img), int(channels == 3)), clip_rect).transpose(2, 0, 1)
    image = array(pixels.astype(np.float32))
    if mean is not None:
        image = image - mean
    if out is None:
        return image
    place = out[index] if out.ndim == 4 else out
    if place.shape != image.shape:
        raise ShapeError(f"[imdecode] out: expected an image of {image.shape}, got {out.shape}")
    place[:] = image
    return out


def _decode(data: bytes, color: int) -> Any:
    """Pixels of uint8 (height, width, channels)."""
    codecs = [entry.value for entry in plugins.registry("image_codecs").items()]
    if not codecs:
        raise PluginError("[imdecode] no image codec is installed: install mx-io, which has them")
    for codec in sorted(codecs, key=lambda codec: (-codec.priority, codec.name)):
        with exits_refused(f"[imdecode] {codec.name}"):
            if not codec.sniff(data[:_HEAD_BYTES]):
                continue
            try:
                return codec.decode(data, color)
            except (MXNetError, MemoryError):
                raise
            except Exception as error:
                let_pass(error)
                raise FileFormatError(
                    f"[imdecode] {codec.name}: expected an intact image, got {len(data)} bytes: {error}"
                ) from error
    known = ", ".join(sorted(codec.name for codec in codecs))
    raise FileFormatError(
        f"[imdecode] expected an image of an installed codec ({known}), "
        f"got {len(data)} bytes beginning with {data[:8]!r}"
    )


def _clipped(pixels: Any, rectangle: Sequence[int]) -> Any:
    if len(rectangle) != 4:
        raise ArgumentError(f"[imdecode] clip_rect: expected (x0, y0, x1, y1), got {rectangle!r}")
    x0, y0, x1, y1 = (int(v) for v in rectangle)
    if (x0, y0, x1, y1) == (0, 0, 0, 0):
        return pixels
    height, width, _ = pixels.shape
    if not (0 <= x0 < x1 <= width and 0 <= y0 < y1 <= height):
        raise ShapeError(
            f"[imdecode] clip_rect: expected a part of an image {width} wide and {height} high, got {rectangle!r}"
        )
    return pixels[y0:y1, x0:x1]
