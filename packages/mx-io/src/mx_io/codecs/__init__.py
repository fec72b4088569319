# SPDX-License-Identifier: Apache-2.0
"""Image codecs, found by the content of the data (reading) or by extension (writing).

A codec is registered by the hook `mx_register_image_codecs`:
`registry.add(name, extensions, sniff, decode, encode=None, priority=10)` with

- `sniff(head) -> bool`: whether the first 64 bytes of a payload are of this format;
- `decode(data, color) -> ndarray` of uint8, shape (height, width, channels), red first; `color` 1 wants three
  channels, 0 one (grey), -1 what is stored; FileFormatError for damaged data;
- `encode(image, quality) -> bytes` of an array of that kind.

A decoder that can decode smaller images faster has a third parameter, `least_scale=None`. It may be a function: from
height and width of the image as `decode` would return it to the least scale, at most 1, at which it may be decoded.

`decode` and `encode` are called from several threads at once and should release the GIL.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mx_core import plugins
from mx_core.errors import ArgumentError, FileFormatError, MXNetError, ShapeError
from mx_core.exits import exits_refused
from mx_core.plugins.specs import CodecSpec, resolve
from mx_core.signals import let_pass

Pixels = npt.NDArray[np.uint8]

#: Bytes of a payload that `sniff` sees.
HEAD_BYTES = 64
#: Larger images are refused before memory is taken for them; Pillow warns from here on.
MAX_PIXELS = 89_478_485


@lru_cache(maxsize=1)
def codecs() -> tuple[CodecSpec, ...]:
    """The installed codecs, highest priority first."""
    entries = [entry.value for entry in plugins.registry("image_codecs").items()]
    return tuple(sorted(entries, key=lambda codec: (-codec.priority, codec.name)))


def check_size(height: int, width: int, name: str) -> None:
    """Refuse an image of more than `MAX_PIXELS`; for codecs, before they decode."""
    if height < 1 or width < 1 or height * width > MAX_PIXELS:
        raise FileFormatError(f"[{name}] expected 1 to {MAX_PIXELS} pixels, got {height} x {width}")


def luma(pixels: Pixels) -> Pixels:
    """Grey of red-first pixels (ITU-R BT.601), shape (height, width, 1)."""
    weights = np.array([0.299, 0.587, 0.114], np.float32)
    grey: Pixels = np.rint(pixels[:, :, :3] @ weights).astype(np.uint8)[:, :, None]
    return grey


#: From height and width of an image to the least scale, at most 1, at which it may be decoded.
LeastScale = Callable[[int, int], float]


def decode(
    data: bytes | bytearray | memoryview, color: int = 1, least_scale: LeastScale | None = None
) -> Pixels:
    """Decode an image of any installed format.

    Parameters
    ----------
    data : bytes-like
    color : {1, 0, -1}
        Three channels, one (grey), or what is stored.
    least_scale : callable, optional
        From height and width to the least scale, at most 1, at which the image may be decoded; codecs that cannot
        decode at another scale than 1 do not ask.

    Returns
    -------
    ndarray of uint8, shape (height, width, channels)
        Red first; a channel axis always.

    Raises
    ------
    FileFormatError
        No codec knows the format, or the data are damaged.
    """
    if color not in (1, 0, -1):
        raise ArgumentError(f"[decode] color: expected 1, 0 or -1, got {color!r}")
    head = bytes(memoryview(data)[:HEAD_BYTES])
    for codec in codecs():
        if _recognises(codec, head):
            return _decode_with(codec, data, color, least_scale)
    known = ", ".join(codec.name for codec in codecs()) or "none"
    raise FileFormatError(
        f"[decode] expected an image of an installed codec ({known}), "
        f"got {len(data)} bytes beginning with {head[:8]!r}"
    )


def recognised(data: bytes | bytearray | memoryview) -> str | None:
    """The name of the installed codec that knows the format of some data; None if none does."""
    head = bytes(memoryview(data)[:HEAD_BYTES])
    return next((codec.name for codec in codecs() if _recognises(codec, head)), None)


def jpeg_is_ours() -> bool:
    """Whether JPEG files are decoded by this package: no codec of a plug-in is asked before its own."""
    registry = plugins.registry("image_codecs")
    for codec in codecs():
        entry = registry.get(codec.name)
        if not entry.is_first_party:
            return False
        if codec.name == "jpeg":
            return not plugins.is_aside(entry)
    return False


def _recognises(codec: CodecSpec, head: bytes) -> bool:
    """What `sniff` says; a codec whose `sniff` raises is disabled, and the next one is asked."""
    entry = plugins.registry("image_codecs").get(codec.name)
    if plugins.is_aside(entry):
        return False
    try:
        with exits_refused("sniff"):
            return bool(codec.sniff(head))
    except Exception as error:
        plugins.set_aside(entry, error)
        return False


@lru_cache(maxsize=64)
def _scales(decoder: Callable[..., Any]) -> bool:
    """Whether a decoder has a parameter `least_scale`."""
    try:
        return "least_scale" in inspect.signature(decoder).parameters
    except (TypeError, ValueError):
        return False


def readable_extensions() -> tuple[str, ...]:
    """The extensions of files that installed codecs read, sorted."""
    return tuple(sorted({extension for codec in codecs() for extension in codec.extensions}))


def listed_extensions() -> tuple[str, ...]:
    """The extensions that `im2rec` lists: MXNet's, and those of the codecs that plug-ins bring."""
    own = plugins.registry("image_codecs")
    brought = {
        extension
        for codec in codecs()
        if not own.get(codec.name).is_first_party
        for extension in codec.extensions
    }
    return tuple(dict.fromkeys([".jpeg", ".jpg", ".png", *sorted(brought)]))


def writable_extensions() -> tuple[str, ...]:
    """The extensions of files that installed codecs write, sorted."""
    return tuple(sorted({e for codec in codecs() if codec.encode is not None for e in codec.extensions}))


def _decode_with(codec: CodecSpec, data: Any, color: int, least_scale: LeastScale | None) -> Pixels:
    more = {} if least_scale is None or not _scales(resolve(codec.decode)) else {"least_scale": least_scale}
    with damage_reported(codec.name, data), exits_refused(f"[{codec.name}] decode"):
        pixels: Pixels = codec.decode(data, color, **more)
    if pixels.ndim != 3 or pixels.dtype != np.uint8:
        raise ShapeError(
            f"[{codec.name}] decode: expected uint8 of three axes, got {pixels.dtype} of {pixels.shape}; "
            "the codec breaks its contract"
        )
    return pixels


@contextmanager
def damage_reported(name: str, data: Any) -> Iterator[None]:
    """What an image library raises about `data` becomes a FileFormatError; for codecs."""
    try:
        yield
    except (MXNetError, MemoryError):
        raise
    except Exception as error:
        let_pass(error)
        raise FileFormatError(f"[{name}] expected an intact image, got {len(data)} bytes: {error}") from error


def encode(image: npt.ArrayLike, extension: str = ".jpg", quality: int = 95) -> bytes:
    """Encode an image in the format of a file extension.

    Parameters
    ----------
    image : array_like of uint8, shape (height, width) or (height, width, 1, 3 or 4)
        Red first.
    extension : str
        `".jpg"`, `".png"`, or what another installed codec writes.
    quality : int
        The meaning depends on the codec: 1 to 100 for JPEG, the compression level 0 to 9 for PNG.
    """
    given = np.asarray(image)
    pixels = given[:, :, None] if given.ndim == 2 else given
    if pixels.ndim != 3 or pixels.dtype != np.uint8 or pixels.shape[2] not in (1, 3, 4) or pixels.size == 0:
        raise ShapeError(
            f"[encode] image: expected uint8 of shape (height, width[, 1, 3 or 4]), "
            f"got {given.dtype} of {given.shape}"
        )
    wanted = extension.lower() if extension.startswith(".") else f".{extension.lower()}"
    for codec in codecs():
        if codec.encode is not None and wanted in codec.extensions:
            with exits_refused(f"[{codec.name}] encode"):
                encoded: bytes = codec.encode(np.ascontiguousarray(pixels), quality)
            return encoded
    known = writable_extensions()
    raise ArgumentError(
        f"[encode] extension: expected one of {', '.join(known) or 'none'}, got {extension!r}"
    )
