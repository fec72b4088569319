# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import random
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import simplejpeg
from PIL import Image, ImageFile

from mx_core import plugins
from mx_core.errors import ArgumentError, FileFormatError, PluginWarning, ShapeError
from mx_core.plugins import Entry, Registry, aside
from mx_core.plugins.registries import Provenance
from mx_core.plugins.specs import CodecSpec
from mx_io import codecs, recordio

DATA = Path(__file__).parent / "data"


def smooth(height: int, width: int, channels: int = 3) -> np.ndarray:
    y, x, c = np.mgrid[:height, :width, :channels]
    return np.clip(40 * c + 3 * x + 5 * y, 0, 255).astype(np.uint8)


@pytest.mark.parametrize(
    ("extension", "channels"),
    [(e, c) for e in (".png", ".bmp", ".npy") for c in (1, 3, 4) if (e, c) != (".bmp", 4)],
)
def test_lossless_round_trip(extension, channels):
    image = np.random.default_rng(0).integers(0, 256, (13, 7, channels), np.uint8)
    assert np.array_equal(codecs.decode(codecs.encode(image, extension, 3), -1), image)


@pytest.mark.parametrize("channels", [1, 3])
def test_jpeg_round_trip_is_close(channels):
    image = smooth(24, 40, channels)
    decoded = codecs.decode(codecs.encode(image, ".jpg", 98), -1)
    assert decoded.shape == image.shape
    assert np.abs(decoded.astype(int) - image).mean() < 4


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_webp(channels):
    image = smooth(24, 40, channels)
    data = codecs.encode(image, ".webp", 95)
    assert codecs.recognised(data) == "webp"
    decoded = codecs.decode(data, -1)
    assert decoded.shape == (24, 40, max(3, channels)) and codecs.decode(data, 0).shape == (24, 40, 1)
    assert np.abs(decoded[:, :, : min(channels, 3)].astype(int) - image[:, :, :3]).mean() < 4
    lossless = io.BytesIO()
    Image.fromarray(smooth(24, 40)).save(lossless, "WEBP", lossless=True)
    assert np.array_equal(codecs.decode(lossless.getvalue()), smooth(24, 40))
    pictures = [Image.fromarray(smooth(24, 40) // n) for n in (1, 2)]
    moving = io.BytesIO()
    pictures[0].save(moving, "WEBP", save_all=True, append_images=pictures[1:], lossless=True)
    assert np.array_equal(codecs.decode(moving.getvalue()), smooth(24, 40))
    with pytest.raises(ArgumentError, match=r"\[webp\] quality: expected 1 to 100, got 0"):
        codecs.encode(image, ".webp", 0)
    with pytest.raises(ShapeError, match="at most 16383"):
        codecs.encode(np.zeros((1, 16384, 3), np.uint8), ".webp")


def test_sizes_of_webp_files_are_checked_before_they_are_opened(monkeypatch):
    plain = codecs.encode(smooth(24, 40), ".webp", 95)
    wide = bytearray(plain)
    wide[26:30] = b"\xff\x3f\xff\x3f"
    lossless = plain[:12] + b"VP8L\x0a\0\0\0\x2f" + b"\xff\xff\xff\x0f\0" + plain[40:]
    extended = plain[:12] + b"VP8X\x0a\0\0\0\0\0\0\0" + b"\xff\xff\x3f\0\xff\x3f" + plain[30:]
    with pytest.raises(FileFormatError, match="intact"):
        codecs.decode(plain[: len(plain) // 2])
    monkeypatch.setattr(Image, "open", lambda *a, **k: pytest.fail("opened"))
    for data in (bytes(wide), lossless, extended):
        with pytest.raises(FileFormatError, match=r"\[webp\] expected 1 to \d+ pixels, got \d+ x \d+"):
            codecs.decode(data)
    tall = bytearray(plain)
    tall[26:30] = (4096).to_bytes(2, "little") * 2
    with pytest.raises(
        FileFormatError, match=r"\[webp\] 4096 x 4096: expected at most \d+ pixels in \d+ bytes"
    ):
        codecs.decode(bytes(tall))
    for data in (plain[:12], plain[:29], plain[:12] + b"JUNK" + plain[16:]):
        with pytest.raises(FileFormatError, match="expected a chunk of pixels"):
            codecs.decode(data)


@pytest.mark.parametrize("extension", [".jpg", ".png", ".npy", ".bmp"])
def test_color_decides_the_channels(extension):
    for channels in (1, 3):
        data = codecs.encode(smooth(8, 9, channels), extension, 9)
        assert codecs.decode(data, 1).shape == (8, 9, 3)
        assert codecs.decode(data, 0).shape == (8, 9, 1)
        assert codecs.decode(data, -1).shape == (8, 9, channels)


def test_golden_jpeg_records_decode_as_pillow_decodes_them():
    with recordio.MXIndexedRecordIO(DATA / "images.idx", DATA / "images.rec", "r") as record:
        for key in record.keys:
            header, payload = recordio.unpack(record.read_idx(key))
            assert (header.id, header.label) == (key, key % 4)
            assert np.array_equal(
                codecs.decode(payload), np.asarray(Image.open(io.BytesIO(payload)).convert("RGB"))
            )


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_every_kind_of_png(mode):
    grey = Image.fromarray(smooth(9, 11, 1)[:, :, 0])
    image = Image.fromarray(np.asarray(grey, np.uint16) * 256) if mode == "I;16" else grey.convert(mode)
    target = io.BytesIO()
    image.save(target, "PNG")
    decoded = codecs.decode(target.getvalue(), 0)
    expected = grey if mode == "I;16" else image.convert("L")
    assert np.array_equal(decoded[:, :, 0], np.asarray(expected))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_followed(orientation):
    image = Image.fromarray(smooth(16, 32))
    exif = Image.Exif()
    exif[0x0112] = orientation
    target = io.BytesIO()
    image.save(target, "JPEG", exif=exif, quality=95)
    from PIL import ImageOps

    expected = np.asarray(ImageOps.exif_transpose(Image.open(target)))
    assert np.array_equal(codecs.decode(target.getvalue(), 1), expected)
    assert codecs.decode(target.getvalue(), -1).shape == (16, 32, 3)


def test_cmyk_jpeg_gives_colours():
    target = io.BytesIO()
    Image.fromarray(np.full((16, 16, 3), (250, 10, 10), np.uint8)).convert("CMYK").save(
        target, "JPEG", quality=98
    )
    red, green, blue = codecs.decode(target.getvalue(), 1).reshape(-1, 3).mean(0)
    assert red > 230 and green < 30 and blue < 30


def test_unknown_data_are_refused_with_the_codecs_named():
    with pytest.raises(FileFormatError, match=r"installed codec \(bmp, jpeg, npy, png, webp\), got 7 bytes"):
        codecs.decode(b"nothing")
    with pytest.raises(FileFormatError, match="got 0 bytes"):
        codecs.decode(b"")


def test_a_bmp_file_that_is_short_of_pixels_is_refused_before_memory_is_taken(monkeypatch):
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
    whole = bytearray(codecs.encode(pixels, ".bmp"))
    np.testing.assert_array_equal(codecs.decode(bytes(whole)), pixels)
    np.testing.assert_array_equal(
        codecs.decode(bytes(whole[:-3])), pixels
    )  # without what fills the row to words
    monkeypatch.delattr(ImageFile.ImageFile, "load")
    for side, compression in ((8, 0), (3000, 0), (3000, 1)):
        head = whole[:18] + struct.pack("<ii", side, side) + whole[26:28]
        head += struct.pack("<HI", 8 if compression else 24, compression) + whole[34:]
        with pytest.raises(FileFormatError, match=rf"\[bmp\] {side} x {side}: expected"):
            codecs.decode(bytes(head))


def test_a_decompression_bomb_takes_no_memory():
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", 2**30, 2**30, 8, 2, 0, 0, 0)
    bomb = (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(b"\0" * 1000))
        + chunk(b"IEND", b"")
    )
    with pytest.raises(FileFormatError, match="png"):
        codecs.decode(bomb)
    jpeg = bytearray(codecs.encode(smooth(8, 8), ".jpg"))
    start = jpeg.index(b"\xff\xc0")
    jpeg[start + 5 : start + 9] = struct.pack(">HH", 65500, 65500)
    with pytest.raises(FileFormatError, match="expected 1 to 89478485 pixels, got 65500 x 65500"):
        codecs.decode(jpeg)


@pytest.mark.parametrize("extension", [".jpg", ".png", ".bmp", ".npy"])
def test_truncated_images_are_refused(extension):
    data = codecs.encode(np.random.default_rng(1).integers(0, 256, (40, 40, 3), np.uint8), extension, 5)
    for length in range(0, len(data) - 40, max(1, len(data) // 25)):
        with pytest.raises(FileFormatError):
            codecs.decode(data[:length])


@pytest.mark.long
@pytest.mark.timeout(60)
@pytest.mark.parametrize("extension", [".jpg", ".png", ".bmp", ".npy"])
def test_mutated_images_give_pixels_or_an_error(extension):
    rng = random.Random(3)
    original = codecs.encode(smooth(24, 24), extension, 5)
    refused = 0
    for _ in range(300):
        mutant = bytearray(original)
        for _ in range(rng.randint(1, 4)):
            mutant[rng.randrange(len(mutant))] = rng.randrange(256)
        try:
            assert codecs.decode(mutant, rng.choice([1, 0, -1])).ndim == 3
        except FileFormatError:
            refused += 1
    assert refused > 5


def test_a_pickle_in_npy_clothes_is_not_executed():
    target = io.BytesIO()
    np.save(target, np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(FileFormatError, match="expected uint8"):
        codecs.decode(target.getvalue())


def test_wrong_images_and_options_are_explained():
    with pytest.raises(ShapeError, match=r"got float32 of \(4, 4\)"):
        codecs.encode(np.zeros((4, 4), np.float32))
    with pytest.raises(ArgumentError, match=r"extension: expected one of .*\.png.*, got '\.tif'"):
        codecs.encode(smooth(4, 4), ".tif")
    with pytest.raises(ArgumentError, match="quality: expected 1 to 100, got 101"):
        codecs.encode(smooth(4, 4), ".jpg", 101)


def test_pack_img_and_unpack_img_use_blue_green_red():
    image = smooth(10, 12)
    header = recordio.IRHeader(0, 5.0, 9, 0)
    back, pixels = recordio.unpack_img(recordio.pack_img(header, image, 9, ".png"))
    assert back == header and np.array_equal(pixels, image)
    _, payload = recordio.unpack(recordio.pack_img(header, image, 9, ".png"))
    assert np.array_equal(codecs.decode(payload), image[:, :, ::-1])
    _, grey = recordio.unpack_img(recordio.pack_img(header, image, 95, ".jpg"), 0)
    assert grey.shape == (10, 12)


def test_jpeg_with_stray_bytes_is_read():
    data = codecs.encode(smooth(16, 16), ".jpg")
    stray = data[:-2] + b"\0\0\0\0" + data[-2:]
    with pytest.raises(ValueError, match="extraneous"):
        simplejpeg.decode_jpeg(stray)
    assert np.array_equal(codecs.decode(stray), codecs.decode(data))


def test_a_codec_whose_sniff_raises_is_set_aside(monkeypatch):
    monkeypatch.delenv("MX_STRICT_PLUGINS", raising=False)

    def sniff(head):
        raise RuntimeError("no licence")

    def decode(data, color):
        raise AssertionError

    registry = Registry("image_codecs")
    broken = CodecSpec("acme", (".acme",), sniff, decode, None, 100)
    registry.commit(
        Entry("image_codecs", "acme", broken, Provenance("acme", "acme-images", "1.0"), "acme.py:7")
    )
    for entry in plugins.registry("image_codecs").items():
        registry.commit(entry)
    monkeypatch.setattr(aside, "_faults", {})
    monkeypatch.setattr(codecs.plugins, "registry", lambda kind: registry)
    monkeypatch.setattr(codecs, "codecs", lambda: tuple(entry.value for entry in registry.in_order()))
    data = codecs.encode(np.zeros((2, 2, 3), np.uint8), ".png")
    with pytest.warns(PluginWarning, match="image codecs: 'acme' of plug-in 'acme' .*acme.py:7.*no licence"):
        assert codecs.decode(data).shape == (2, 2, 3)
    assert codecs.decode(data).shape == (2, 2, 3)


def test_a_png_that_cannot_hold_its_pixels_is_refused_before_they_are_allocated():
    data = bytearray(codecs.encode(np.zeros((8, 16, 3), np.uint8), ".png"))
    data[20:24] = (4_000_000).to_bytes(4, "big")
    data[29:33] = zlib.crc32(data[12:29]).to_bytes(4, "big")
    with pytest.raises(
        FileFormatError, match=r"\[png\] 4000000 x 16: expected 192000000 bytes of pixels, got"
    ):
        codecs.decode(bytes(data))


def test_a_png_of_one_colour_is_as_small_as_deflate_can_make_it():
    image = np.zeros((3000, 3000, 3), np.uint8)
    assert np.array_equal(codecs.decode(codecs.encode(image, ".png", 9)), image)
