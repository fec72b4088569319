# SPDX-License-Identifier: Apache-2.0
"""Contract tests for image codecs, on valid, damaged and random bytes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import numpy.typing as npt

from mx_core.plugins.specs import CodecSpec
from mx_core.testing.expect import raises, within

#: bytes that `sniff` sees
HEAD = 64


class CodecContract:
    """Tests of a codec: derive, name the class `Test…`, write `make_codec`.

    `decode(data, color)` gives uint8 of shape (height, width, channels), red first; `color` 1
    asks for three channels, 0 for one. `encode(image, quality)` gives bytes.
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
        assert extensions and all(e.startswith(".") and e == e.lower() for e in extensions)

    def test_it_recognises_its_own_bytes_only(self) -> None:
        codec = self.make_codec()
        assert codec.sniff(self.sample()[:HEAD])
        for other in (b"", b"\0", b"\0" * HEAD, b"not an image at all, just some text in a row"):
            assert not codec.sniff(other), other

    def test_decode_gives_rows_columns_channels(self) -> None:
        codec = self.make_codec()
        color, grey = codec.decode(self.sample(), 1), codec.decode(self.sample(), 0)
        assert color.dtype == np.uint8 and color.shape == (32, 48, 3)
        assert grey.dtype == np.uint8 and grey.shape == (32, 48, 1)

    def test_encode_and_decode_give_the_image_back(self) -> None:
        codec = self.make_codec()
        if codec.encode is None:
            return
        found = codec.decode(codec.encode(self.image(), 95), 1)
        difference = np.abs(found.astype(int) - self.image().astype(int)).max()
        assert difference <= self.tolerance, f"a pixel differs by {difference}"

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
        assert decoded.dtype == np.uint8 and decoded.ndim == 3
