# SPDX-License-Identifier: Apache-2.0
"""JPEG files that the pipeline decodes itself, against libjpeg-turbo, and what it leaves to the codecs."""

from __future__ import annotations

import io
import random
from typing import Any

import numpy as np
import pytest
import simplejpeg
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFile

from mx_core.errors import FileFormatError
from mx_io import _core, codecs, recordio
from mx_io.io import ImageRecordIter, ImageRecordUInt8Iter
from mx_io.iterators import image_filler

pytestmark = pytest.mark.timeout(60)


def photograph(height: int, width: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Smooth surfaces with edges and noise."""
    y, x = np.mgrid[:height, :width]
    draw = np.random.default_rng(seed)
    waves = [np.sin(x / draw.uniform(4, 30)) * np.cos(y / draw.uniform(4, 30)) for _ in range(3)]
    pixels = 128 + 90 * np.stack(waves, 2) + draw.normal(0, 8, (height, width, 3))
    pixels[height // 3 : height // 2, width // 4 : width // 2] = draw.integers(0, 256, 3)
    return pixels.clip(0, 255).astype(np.uint8)


def jpeg(pixels: np.ndarray[Any, Any], **more: Any) -> bytes:
    target = io.BytesIO()
    Image.fromarray(pixels).save(target, "JPEG", **more)
    return target.getvalue()


def options(shape: tuple[int, int, int], **more: Any) -> Any:
    made = _core.AugmentOptions()
    made.channels, made.height, made.width = shape
    for name, value in more.items():
        setattr(made, name, value)
    return made


def filled(made: Any, data: list[bytes], seed: int = 0, scaled: bool = False) -> tuple[Any, list[int]]:
    out = np.zeros((len(data), made.channels, made.height, made.width), np.uint8)
    left = made.fill(data, out, seed, [3] * len(data), list(range(len(data))), None, scaled, 10**8)
    return out, left


def by_codecs(made: Any, data: list[bytes], seed: int = 0) -> np.ndarray[Any, Any]:
    out = np.zeros((len(data), made.channels, made.height, made.width), np.uint8)
    for i, each in enumerate(data):
        pixels = codecs.decode(each, 1 if made.channels == 3 else 0)
        made.apply(pixels, out[i], seed, 3, i)
    return out


CROPS: list[dict[str, Any]] = [
    {"rand_crop": True},
    {},
    {"random_resized_crop": True, "min_random_area": 0.05, "max_aspect_ratio": 0.4, "rand_mirror": True},
    {
        "random_resized_crop": True,
        "min_random_area": 0.05,
        "brightness": 0.3,
        "random_h": 9,
        "inter_method": 10,
    },
    {"min_crop_size": 5, "max_crop_size": 40, "rand_crop": True},
    {"resize": 30, "rand_crop": True},
    {"pad": 3, "rand_crop": True},
    {"max_rotate_angle": 20, "rand_crop": True},
]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(8, 90), st.integers(8, 90), st.integers(0, 2), st.integers(5, 99), st.integers(0, 5),
    st.booleans(), st.sampled_from(CROPS), st.sampled_from([1, 3]), st.integers(0, 999),
)  # fmt: skip
def test_every_crop_is_what_libjpeg_and_the_same_steps_give(
    height, width, sampling, quality, restart, optimize, crop, channels, seed
):
    more = {"restart_marker_blocks": restart} if restart else {"optimize": optimize}
    data = [
        jpeg(photograph(height, width, seed + i), quality=quality, subsampling=sampling, **more)
        for i in range(3)
    ]
    made = options((channels, 1 + seed % 30, 1 + seed % 23), **crop)
    found, left = filled(made, data, seed)
    assert left == [] and np.array_equal(found, by_codecs(made, data, seed))


def test_crops_at_every_place_and_sizes_at_the_borders_of_blocks():
    for sampling in (0, 1, 2):
        for height, width in ((16, 16), (17, 33), (31, 8), (48, 47), (1, 64)):
            data = [jpeg(photograph(height, width), quality=90, subsampling=sampling)] * 40
            made = options((3, 1 + height // 3, 1 + width // 3), rand_crop=True)
            found, left = filled(made, data)
            assert left == [] and np.array_equal(found, by_codecs(made, data))


def test_grey_files():
    grey = jpeg(photograph(40, 50)[:, :, 0], quality=80)
    made = options((1, 20, 20), rand_crop=True)
    found, left = filled(made, [grey])
    assert left == [] and np.array_equal(found, by_codecs(made, [grey]))
    assert filled(options((3, 20, 20)), [grey])[1] == [0]


def rare_kinds() -> dict[str, bytes]:
    pixels = photograph(40, 50)
    plain = jpeg(pixels, quality=80)
    exif = Image.Exif()
    exif[0x0112] = 6
    ycck = io.BytesIO()
    Image.fromarray(pixels).convert("CMYK").save(ycck, "JPEG")
    return {
        "progressive": jpeg(pixels, progressive=True),
        "turned": jpeg(pixels, exif=exif.tobytes()),
        "inks": ycck.getvalue(),
        "red, green, blue": jpeg(pixels, keep_rgb=True),
        "end missing": plain[:-2],
        "half": plain[: len(plain) // 2],
        "half, with an end": plain[: len(plain) // 2] + b"\xff\xd9",
        "a large frame": plain.replace(
            b"\xff\xc0\x00\x11\x08\x00\x28\x00\x32", b"\xff\xc0\x00\x11\x08\x7f\xff\x7f\xff"
        ),
        "png": codecs.encode(pixels, ".png"),
        "nothing": b"",
        "a JFIF head too short to count": b"\xff\xd8\xff\xe0\x00\x07JFIF\0" + jpeg(pixels, keep_rgb=True)[2:],
    }


@pytest.mark.parametrize("kind", rare_kinds())
def test_what_is_rare_or_damaged_is_left_to_the_codecs(kind):
    found, left = filled(options((3, 36, 44)), [jpeg(photograph(40, 50)), rare_kinds()[kind]])
    assert left == [1] and not found[1].any() and found[0].any()


def test_upright_photographs_with_exif_data_are_not_left():
    exif = Image.Exif()
    exif[0x0110], exif[0x0112] = "a camera", 1
    assert filled(options((3, 8, 8)), [jpeg(photograph(40, 50), exif=exif.tobytes())])[1] == []


def test_scaled_decoding_is_left_to_the_codecs_where_it_pays():
    data = [jpeg(photograph(80, 100))]
    assert filled(options((3, 20, 20), resize=30), data, scaled=True)[1] == [0]
    assert filled(options((3, 20, 20), resize=60), data, scaled=True)[1] == []


def test_no_damage_breaks_the_decoder():
    draw = random.Random(5)
    seeds = [
        jpeg(photograph(24, 40, i), quality=60, subsampling=i % 3, optimize=bool(i % 2)) for i in range(6)
    ]
    kept = 0
    for _ in range(1500):
        data = bytearray(draw.choice(seeds))
        for _ in range(draw.choice((1, 1, 2, 5))):
            at = draw.randrange(2, len(data))
            kind = draw.randrange(4)
            if kind == 0:
                data[at] = draw.randrange(256)
            elif kind == 1:
                data[at] ^= 1 << draw.randrange(8)
            elif kind == 2:
                del data[at : at + draw.randrange(1, 30)]
            else:
                data[at:at] = bytes(draw.randrange(256) for _ in range(draw.randrange(1, 10)))
        data[-2:] = b"\xff\xd9"
        kept += (
            filled(options((3, 16, 16), random_resized_crop=True, min_random_area=0.2), [bytes(data)])[1]
            == []
        )
    assert 100 < kept < 1400


def steps_raised(data: bytes, step: int) -> bytes:
    """The file with other steps of quantization: its values become larger than those of any image."""
    changed = bytearray(data)
    at = 0
    while (at := data.find(b"\xff\xdb\x00\x43", at)) >= 0:
        changed[at + 5 : at + 69] = bytes([step]) * 64
        at += 69
    return bytes(changed)


@pytest.mark.parametrize("step", [40, 90, 255])
@pytest.mark.parametrize("sampling", [0, 1, 2])
def test_values_beyond_those_of_images_wrap_around_as_libjpegs(step, sampling):
    rows = np.repeat(photograph(1, 64, step), 48, 0)  # blocks with values in their first row alone
    flat = np.kron(photograph(6, 8, step), np.ones((8, 8, 1), np.uint8))
    for pixels in (photograph(48, 64, step), rows, flat):
        for quality in (70, 95, 100):
            data = steps_raised(jpeg(pixels, quality=quality, subsampling=sampling), step)
            found, left = filled(options((3, 48, 64)), [data])
            assert left == [] and np.array_equal(found[0], simplejpeg.decode_jpeg(data).transpose(2, 0, 1))


#: what libjpeg says of a file whose pixels are all there
BESIDE_PIXELS = ("unknown JFIF revision", "Unsupported marker type")


def test_damaged_files_that_are_decoded_have_libjpegs_pixels():
    draw = random.Random(9)
    seeds = [
        jpeg(photograph(24, 40, i), quality=(60, 98)[i % 2], subsampling=i % 3, optimize=i % 4 < 2)
        for i in range(12)
    ]
    kept = 0
    for _ in range(1500):
        data = bytearray(draw.choice(seeds))
        for _ in range(draw.choice((1, 1, 2))):
            at = (
                draw.randrange(len(data) - 500, len(data))
                if draw.random() < 0.7
                else draw.randrange(2, len(data))
            )
            data[at] = draw.randrange(256)
        data[-2:] = b"\xff\xd9"
        made = options((3, 24, 40))
        found, left = filled(made, [bytes(data)])
        if left:
            continue
        kept += 1
        try:
            pixels = simplejpeg.decode_jpeg(bytes(data), strict=False)
        except ValueError as error:
            assert any(words in str(error) for words in BESIDE_PIXELS)
            continue
        expected = np.zeros_like(found[0])
        made.apply(pixels, expected, 0, 3, 0)
        assert np.array_equal(found[0], expected)
    assert kept > 200


@pytest.fixture
def packed(tmp_path):
    with recordio.MXRecordIO(tmp_path / "a.rec", "w") as record:
        for i, data in enumerate([*rare_kinds().values(), *[jpeg(photograph(40, 50, i)) for i in range(20)]]):
            if i not in (4, 5, 6, 7, 9):  # damaged ones
                record.write(recordio.pack(recordio.IRHeader(0, float(i), i, 0), data))
    return {
        "path_imgrec": str(tmp_path / "a.rec"),
        "data_shape": (3, 24, 24),
        "batch_size": 7,
        "shuffle": True,
    }


@pytest.mark.parametrize(
    ("made", "crop"), [*((ImageRecordIter, crop) for crop in CROPS), (ImageRecordUInt8Iter, CROPS[0])]
)
def test_batches_are_the_same_as_by_the_codecs(packed, monkeypatch, made, crop):
    def epoch() -> list[np.ndarray[Any, Any]]:
        batches = made(**packed, **crop)
        found = [batch.data[0].asnumpy() for batch in batches]
        batches.close()
        return found

    ours = epoch()
    called = []
    monkeypatch.setattr(codecs, "jpeg_is_ours", lambda: called.append(1) and False)
    assert all(map(np.array_equal, ours, epoch())) and called


def test_most_files_are_decoded_at_once(packed, monkeypatch):
    asked = []
    monkeypatch.setattr(
        codecs, "decode", lambda data, color, decode=codecs.decode: asked.append(1) or decode(data, color)
    )
    list(ImageRecordIter(**packed))
    assert len(asked) <= 2 * 6  # those that are rare, in a pass or two


def test_a_codec_of_a_stranger_is_asked_before(monkeypatch):
    assert codecs.jpeg_is_ours()
    ours = codecs.codecs()
    monkeypatch.setattr(codecs, "codecs", lambda: tuple(codec for codec in ours if codec.name != "jpeg"))
    assert not codecs.jpeg_is_ours()


def test_a_damaged_file_among_others_is_named(tmp_path):
    with recordio.MXRecordIO(tmp_path / "a.rec", "w") as record:
        for i in range(image_filler._AT_ONCE + 3):
            data = jpeg(photograph(40, 50, i))
            record.write(recordio.pack(recordio.IRHeader(0, float(i), i, 0), data[:200] if i == 9 else data))
    given = {"path_imgrec": str(tmp_path / "a.rec"), "data_shape": (3, 24, 24), "batch_size": 11}
    with pytest.raises(
        FileFormatError, match=r"a\.rec: record 9 at byte \d+: \[jpeg\] expected an intact image"
    ):
        ImageRecordIter(**given).next()
    batches = ImageRecordIter(**given, on_error="skip", preprocess_threads=1)
    batch = batches.next()
    assert batch.index[:10].tolist() == [*range(9), 10] and batches.skipped == 1


ImageFile.MAXBLOCK = 1 << 20  # Pillow writes small files with optimized codes through a buffer of this size
