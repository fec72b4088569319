# SPDX-License-Identifier: Apache-2.0
"""Image records: a fixed header, labels and the encoded image."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mx_core.errors import ArgumentError, FileFormatError

if TYPE_CHECKING:
    import numpy.typing as npt

_HEADER = struct.Struct("<IfQQ")

#: An encoded record's payload, or anything that gives its bytes.
BytesLike = bytes | bytearray | memoryview


class IRHeader(NamedTuple):
    """Head of an image record: 24 bytes on disk, then `flag` float32 labels.

    Attributes
    ----------
    flag : int
        Number of labels that follow the head; 0 when the label is in the head.
    label : float or ndarray of float32, shape (flag,)
    id : int
        The record's number, 0 to 2**64 - 1.
    id2 : int
        Upper part of a longer number; usually 0.
    """

    flag: int
    label: Any
    id: int
    id2: int


def pack(header: IRHeader, s: BytesLike) -> bytes:
    """Put a header before a payload.

    Parameters
    ----------
    header : IRHeader
        `header.flag` is not read: it follows from the label.
    s : bytes-like
        The payload, an encoded image usually.

    Returns
    -------
    bytes

    Examples
    --------
    >>> packed = pack(IRHeader(0, [1.0, 2.0], 7, 0), b"payload")
    >>> unpack(packed)[0].flag
    2
    """
    header = IRHeader(*header)
    label = header.label
    if isinstance(label, float | int | np.number):
        head, labels = (0, float(label)), b""
    else:
        values = np.asarray(label, dtype="<f4")
        if values.ndim > 1:
            raise ArgumentError(f"[pack] label: expected a number or one axis, got shape {values.shape}")
        head, labels = (
            ((0, float(values)), b"") if values.ndim == 0 else ((values.size, 0.0), values.tobytes())
        )
    try:
        packed = _HEADER.pack(*head, int(header.id), int(header.id2))
    except (struct.error, OverflowError) as error:
        raise ArgumentError(
            f"[pack] id, id2: expected 0 to 2**64 - 1, got {header.id}, {header.id2}"
        ) from error
    return b"".join((packed, labels, s))


def unpack(s: BytesLike) -> tuple[IRHeader, bytes]:
    """Split a record into its header and its payload.

    Returns
    -------
    header : IRHeader
        `label` is a float when `flag` is 0, else an array of shape (flag,), float32.
    payload : bytes

    Raises
    ------
    FileFormatError
        The record is shorter than its header says.
    """
    header, payload = unpack_view(s)
    return header, bytes(payload)


def unpack_view(s: BytesLike) -> tuple[IRHeader, memoryview]:
    """`unpack` without copying the payload: the view keeps the record alive."""
    view = memoryview(s)
    if len(view) < _HEADER.size:
        raise FileFormatError(
            f"[unpack] record: expected at least {_HEADER.size} bytes of header, got {len(view)}"
        )
    flag, label, identity, id2 = _HEADER.unpack_from(view)
    if flag == 0:
        return IRHeader(0, label, identity, id2), view[_HEADER.size :]
    end = _HEADER.size + 4 * flag
    if len(view) < end:
        raise FileFormatError(
            f"[unpack] record {identity}: expected {end} bytes for {flag} labels, got {len(view)}"
        )
    labels = np.frombuffer(view, dtype="<f4", count=flag, offset=_HEADER.size).astype(np.float32)
    return IRHeader(flag, labels, identity, id2), view[end:]


def pack_img(header: IRHeader, img: npt.NDArray[np.uint8], quality: int = 95, img_fmt: str = ".jpg") -> bytes:
    """Encode an image and put a header before it.

    Parameters
    ----------
    img : ndarray of uint8, shape (height, width), (height, width, 1) or (height, width, 3)
        Channels are blue, green, red.
    quality : int
        1 to 100 for JPEG; for PNG the compression level, 0 to 9 (higher is smaller and slower).
    img_fmt : str
        Extension that an installed image codec can write.
    """
    from mx_io.codecs import encode

    pixels = np.asarray(img)
    if pixels.ndim == 3 and pixels.shape[2] == 3:
        pixels = pixels[:, :, ::-1]
    return pack(header, encode(pixels, img_fmt, quality))


def unpack_img(s: BytesLike, iscolor: int = -1) -> tuple[IRHeader, npt.NDArray[np.uint8]]:
    """Split a record into its header and its decoded image.

    Parameters
    ----------
    iscolor : int
        1: three channels; 0: grey, shape (height, width); -1: as stored.

    Returns
    -------
    header : IRHeader
    image : ndarray of uint8, shape (height, width) or (height, width, channels)
        Channels are blue, green, red (and alpha).
    """
    from mx_io.codecs import decode

    header, payload = unpack_view(s)
    pixels = decode(payload, iscolor)
    channels = pixels.shape[2]
    if channels == 1:
        return header, pixels[:, :, 0]
    order = [2, 1, 0, 3][:channels]
    return header, np.ascontiguousarray(pixels[:, :, order])
