# SPDX-License-Identifier: Apache-2.0
"""nd.imdecode with a codec of the test's own: layout, parts, places, means, bad data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import mx_ndarray.nd as nd
from mx_core.errors import ArgumentError, FileFormatError, PluginError, ShapeError
from mx_ndarray import image_files

PIXELS = np.random.default_rng(0).integers(0, 255, (4, 5, 3), np.uint8)
FILE = b"RAW4" + PIXELS.tobytes()


class Codec:
    """Four bytes, then pixels 4 high and 5 wide."""

    name, priority = "raw", 10

    @staticmethod
    def sniff(head: bytes) -> bool:
        return head.startswith(b"RAW4")

    @staticmethod
    def decode(data: bytes, color: int) -> Any:
        pixels = np.frombuffer(data, np.uint8, offset=4).reshape(4, 5, 3)
        return pixels if color else pixels[:, :, :1]


@pytest.fixture
def codecs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    installed: list[Any] = [Codec]
    entry = type("Entry", (), {})

    class Registry:
        def items(self) -> list[Any]:
            made = [entry() for _ in installed]
            for one, codec in zip(made, installed, strict=True):
                one.value = codec
            return made

    monkeypatch.setattr(image_files, "plugins", type("Plugins", (), {"registry": lambda kind: Registry()}))
    yield installed


@pytest.mark.usefixtures("codecs")
def test_channels_come_first() -> None:
    image = nd.imdecode(FILE)
    assert image.dtype == np.float32
    np.testing.assert_array_equal(image.asnumpy(), PIXELS.transpose(2, 0, 1))
    np.testing.assert_array_equal(nd.imdecode(FILE, channels=1).asnumpy(), PIXELS[None, :, :, 0])
    part = nd.imdecode(FILE, clip_rect=(1, 2, 4, 3))
    np.testing.assert_array_equal(part.asnumpy(), PIXELS[2:3, 1:4].transpose(2, 0, 1))


@pytest.mark.usefixtures("codecs")
def test_places_and_means() -> None:
    batch, mean = nd.zeros((2, 3, 4, 5)), nd.full((3, 1, 1), 7)
    assert nd.imdecode(FILE, out=batch, index=1, mean=mean) is batch
    np.testing.assert_array_equal(batch.asnumpy()[1], PIXELS.transpose(2, 0, 1) - 7.0)
    assert (batch[0] == 0).asnumpy().all()
    one = nd.zeros((3, 4, 5), dtype="uint8")
    np.testing.assert_array_equal(nd.imdecode(FILE, out=one).asnumpy(), PIXELS.transpose(2, 0, 1))


@pytest.mark.parametrize(
    ("data", "options", "error", "message"),
    [
        (b"GIF8", {}, FileFormatError, "installed codec \\(raw\\), got 4 bytes"),
        (FILE[:-1], {}, FileFormatError, "raw: expected an intact image"),
        (FILE, {"channels": 2}, ArgumentError, "channels: expected 1 or 3"),
        (FILE, {"clip_rect": (0, 0, 6, 4)}, ShapeError, "5 wide and 4 high"),
        (FILE, {"clip_rect": (0, 0)}, ArgumentError, "clip_rect"),
        (FILE, {"out": nd.zeros((3, 5, 4))}, ShapeError, "out: expected an image of"),
    ],
)
@pytest.mark.usefixtures("codecs")
def test_what_cannot_be_decoded(
    data: bytes, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        nd.imdecode(data, **options)


def test_without_codecs_the_message_names_the_package(codecs: list[Any]) -> None:
    codecs.clear()
    with pytest.raises(PluginError, match="mx-io"):
        nd.imdecode(FILE)


def test_a_number_is_set() -> None:
    x = nd.zeros((2, 3))
    assert nd._internal._set_value(2.5, out=x) is x
    assert (x == 2.5).asnumpy().all()
