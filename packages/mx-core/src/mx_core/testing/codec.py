# SPDX-License-Identifier: Apache-2.0
"""Contract tests for image codecs, on valid, damaged and random bytes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import numpy.typing as npt

from mx_core.plugins.specs import CodecSpec
from mx_core.testing.expect import check_equal, raises, within

#: bytes that `sniff` sees
HEAD = 64


class CodecContract:
    """Tests of a codec: derive, name the class `Test…`, write `make_codec`.

    `decode(data, color)` gives uint8 of shape (height, width, channels), red first; `color` 1
    asks for three channels, 0 for one, -1 for those that are stored. `encode(image, quality)` gives bytes.
    """

    #: largest difference a pixel of a smooth image may have after encode and decode; 0: lossless
    tolerance = 0

    def make_codec(self) -> CodecSpec:
        """The registered record: `plugins.registry("image_codecs").get(name).value`."""
        raise NotImplementedError

    def sample(self) -> bytes:
        """An encoded image of 32 x 48 pixels; needed for a codec that does not encode."""
        codec = self.make_codec()
        assert codec.encode is not None, f"{codec.name}: override `sample`, there is no encoder"
        encoded = codec.encode(self.image(), 95)
        return bytes(encoded)

    def image(self) -> npt.NDArray[np.uint8]:
        """A smooth image, shape (32, 48, 3)."""
        y, x = np.mgrid[0:32, 0:48]
        return np.stack([4 * x, 6 * y, 2 * (x + y)], axis=-1).astype(np.uint8)

    def test_extensions_have_a_dot_and_are_lower_case(self) -> None:
        extensions = self.make_codec().extensions
        assert extensions, "extensions: expected one or more, such as .png"
        for e in extensions:
            assert e.startswith(".") and e == e.lower(), (
                f"extensions: expected .{e.lstrip('.').lower()}, got {e}"
            )

    def test_it_recognises_its_own_bytes_only(self) -> None:
        codec = self.make_codec()
        head = self.sample()[:HEAD]
        assert codec.sniff(head), f"sniff does not recognise what encode or sample gives: {head[:16]!r}…"
        for other in (b"", b"\0", b"\0" * HEAD, b"not an image at all, just some text in a row"):
            assert not codec.sniff(other), f"sniff takes {other[:48]!r} for its format"

    def test_decode_gives_rows_columns_channels(self) -> None:
        codec = self.make_codec()
        for color, channels in ((1, 3), (0, 1)):
            found = codec.decode(self.sample(), color)
            _check_image(found, f"decode with color {color}")
            check_equal(f"shape that decode gives with color {color}", found.shape, (32, 48, channels))
        _check_image(codec.decode(self.sample(), -1), "decode with color -1")

    def test_encode_and_decode_give_the_image_back(self) -> None:
        codec = self.make_codec()
        if codec.encode is None:
            return
        found = codec.decode(codec.encode(self.image(), 95), 1)
        _check_image(found, "decode of what encode gives")
        check_equal("shape of what encode and decode give", found.shape, self.image().shape)
        difference = np.abs(found.astype(int) - self.image().astype(int)).max()
        assert difference <= self.tolerance, (
            f"a pixel differs by {difference} after encode and decode, expected at most {self.tolerance}"
        )

    def test_images_stay_as_they_are_when_the_next_one_is_decoded(self) -> None:
        codec = self.make_codec()
        first = codec.decode(self.sample(), 1)
        _check_image(first, "decode with color 1")
        kept = first.copy()
        if codec.encode is not None:
            codec.decode(codec.encode(255 - self.image(), 95), 1)
        else:
            codec.decode(self.sample(), 0)
        second = codec.decode(self.sample(), 1)
        assert np.array_equal(first, kept) and not np.may_share_memory(first, second), (
            "decode writes the next image over the one that it gave before: make an array for each"
        )

    @within(120)
    def test_truncated_data_is_an_error_not_a_crash(self) -> None:
        codec, data = self.make_codec(), self.sample()
        for size in sorted({0, 1, 2, *range(0, len(data) // 2, max(1, len(data) // 40))}):
            with raises(Exception):
                codec.decode(data[:size], 1)

    @within(120)
    def test_damaged_data_is_an_image_or_an_error(self) -> None:
        codec, data = self.make_codec(), self.sample()
        source = random.Random(0)
        for _ in range(100):
            damaged = bytearray(data)
            for _ in range(source.randint(1, 8)):
                damaged[source.randrange(len(damaged))] = source.randrange(256)
            self._survives(codec, bytes(damaged))

    @staticmethod
    def _survives(codec: CodecSpec, data: bytes) -> None:
        try:
            decoded: Any = codec.decode(data, 1)
        except Exception:  # readers turn any of them into a FileFormatError that names the codec
            return
        _check_image(decoded, "decode of damaged data")


def _check_image(found: Any, what: str) -> None:
    expected = "expected an array of uint8 with the axes height, width, channels"
    assert isinstance(found, np.ndarray), f"{what} gives a {type(found).__name__}; {expected}"
    assert found.dtype == np.uint8 and found.ndim == 3, (
        f"{what} gives {found.dtype} {found.shape}; {expected}"
    )
