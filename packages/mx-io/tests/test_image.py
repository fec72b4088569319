# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mx_core import plugins
from mx_core.errors import ArgumentError, FileFormatError, ShapeError
from mx_io import codecs, image, pixels
from mx_ndarray import NDArray, nd


def gradient(height: int, width: int) -> np.ndarray:
    y, x = np.mgrid[:height, :width]
    return np.stack([x * 255 // max(width - 1, 1), y * 255 // max(height - 1, 1), (x + y) % 256], -1).astype(
        np.uint8
    )


def test_decoding_gives_ndarrays_red_or_blue_first(tmp_path):
    picture = gradient(6, 9)
    data = codecs.encode(picture, ".png", 1)
    decoded = image.imdecode(data)
    assert isinstance(decoded, NDArray) and decoded.dtype == np.uint8
    assert np.array_equal(decoded.asnumpy(), picture)
    assert np.array_equal(
        image.imdecode(np.frombuffer(data, np.uint8), to_rgb=False).asnumpy(), picture[:, :, ::-1]
    )
    assert image.imdecode(data, flag=0).shape == (6, 9, 1)
    (tmp_path / "x.png").write_bytes(data)
    assert np.array_equal(image.imread(tmp_path / "x.png").asnumpy(), picture)
    (tmp_path / "x.png").write_bytes(data[:40])
    with pytest.raises(FileFormatError, match=r"x\.png"):
        image.imread(tmp_path / "x.png")


@pytest.mark.parametrize("interp", [0, 1, 2, 3, 4, 9, 10])
def test_resizing_keeps_a_gradient_a_gradient(interp):
    resized = image.imresize(gradient(32, 64), 16, 8, interp).asnumpy().astype(int)
    assert resized.shape == (8, 16, 3)
    assert np.abs(resized[0, :, 0] - np.linspace(8, 247, 16)).max() <= 12


@settings(deadline=None)
@given(
    h=st.integers(1, 12), w=st.integers(1, 12), factor=st.integers(1, 4), channels=st.sampled_from([1, 3, 4])
)
def test_area_resizing_by_a_whole_factor_is_the_mean(h, w, factor, channels):
    picture = np.random.default_rng(h * w).integers(0, 256, (h * factor, w * factor, channels), np.uint8)
    mean = picture.reshape(h, factor, w, factor, channels).mean((1, 3))
    assert np.abs(pixels.resize(picture, w, h, 3) - mean).max() <= 0.51


def test_linear_resizing_samples_at_pixel_centres():
    row = np.array([[[0], [100]]], np.uint8)
    assert pixels.resize(row, 4, 1, 1).ravel().tolist() == [0, 25, 75, 100]


def test_crops_give_the_part_and_where_it_was():
    picture = gradient(20, 30)
    cut, box = image.center_crop(picture, (10, 6))
    assert box == (10, 7, 10, 6) and np.array_equal(cut.asnumpy(), picture[7:13, 10:20])
    random.seed(1)
    cut, (x, y, w, h) = image.random_crop(picture, (10, 6))
    assert np.array_equal(cut.asnumpy(), picture[y : y + h, x : x + w])
    cut, box = image.random_size_crop(picture, (8, 8), (0.2, 0.5), (0.75, 1.33))
    assert cut.shape == (8, 8, 3) and 0.1 < box[2] * box[3] / 600 < 0.6
    assert image.fixed_crop(picture, 3, 4, 5, 6, (10, 12)).shape == (12, 10, 3)
    assert image.center_crop(picture, (60, 60))[0].shape == (60, 60, 3)
    with pytest.raises(ArgumentError, match="inside 30 x 20 pixels, got x0=25"):
        image.fixed_crop(picture, 25, 0, 6, 6)


def test_short_side_and_scale_down():
    assert image.resize_short(gradient(20, 30), 10).shape == (10, 15, 3)
    assert image.resize_short(gradient(30, 20), 10).shape == (15, 10, 3)
    assert image.scale_down((640, 480), (720, 120)) == (640, 106)
    assert image.scale_down((100, 100), (50, 50)) == (50, 50)


@pytest.mark.parametrize(
    ("interp", "size"),
    [(i, size) for i in (0, 1, 2, 3, 4, 9) for size in ((5, 4), (13, 17), (20, 3))],
)
def test_resized_fractions_stay_fractions(interp, size):
    """As those of 8-bit images, whose results differ from them by rounding alone."""
    picture = np.random.default_rng(interp).integers(0, 256, (9, 8, 3), np.uint8)
    expected = image.imresize(picture, *size, interp).asnumpy().astype(float) / 255
    for dtype, tolerance in (("float32", 1.3 / 255), ("float64", 1.3 / 255), ("float16", 1.6 / 255)):
        made = image.imresize(nd.array(picture / 255, dtype=dtype), *size, interp)
        assert made.dtype == np.dtype(dtype) and made.shape == (size[1], size[0], 3)
        assert abs(np.clip(made.asnumpy().astype(float), 0, 1) - expected).max() < tolerance, dtype
    wide = image.imresize(nd.array(picture * 1000.0, dtype="int32"), *size, interp).asnumpy()
    assert wide.dtype == np.int32 and abs(np.clip(wide, 0, 255_000) / 255_000 - expected).max() < 1.3 / 255
    mean = image.center_crop((picture / 255).astype(np.float32), (24, 27), 1)[0].asnumpy().mean()
    assert abs(mean - (picture / 255).mean()) < 0.05


def test_enlarging_by_area_weighs_two_neighbours():
    """Numbers of OpenCV 3.4, which MXNet calls."""
    row = np.array([[[0.0], [1.0], [0.5]]], np.float32)
    made = image.imresize(row, 4, 1, 3).asnumpy().ravel()
    assert np.allclose(made, [0, 2 / 3, 5 / 6, 0.5], atol=1e-6)


def test_normalising_is_float32():
    result = image.color_normalize(gradient(4, 4), np.array([1, 2, 3]), np.array([2, 2, 2])).asnumpy()
    assert result.dtype == np.float32
    assert np.allclose(result, (gradient(4, 4) - np.array([1.0, 2, 3])) / 2)


AUGMENTERS = [
    image.ResizeAug(12), image.ForceResizeAug((9, 7)), image.CenterCropAug((8, 8)), image.RandomCropAug((8, 8)),
    image.RandomSizedCropAug((8, 8), 0.3, (0.8, 1.2)), image.HorizontalFlipAug(0.5), image.CastAug(),
    image.ColorNormalizeAug(np.zeros(3), np.ones(3)), image.BrightnessJitterAug(0.2), image.ContrastJitterAug(0.2),
    image.SaturationJitterAug(0.2), image.HueJitterAug(0.2), image.ColorJitterAug(0.1, 0.1, 0.1),
    image.LightingAug(0.1, np.ones(3), np.eye(3)), image.RandomGrayAug(0.5),
]  # fmt: skip


@pytest.mark.parametrize("augmenter", AUGMENTERS, ids=lambda a: type(a).__name__)
def test_augmenters_keep_kind_and_input_and_follow_the_seed(augmenter):
    picture = gradient(16, 18)
    random.seed(5)
    first = augmenter(picture)
    random.seed(5)
    second = augmenter(image.imresize(picture, 18, 16))
    assert isinstance(first, np.ndarray) and isinstance(second, NDArray)
    assert first.shape[2] == 3 and np.array_equal(first, second.asnumpy())
    assert np.array_equal(picture, gradient(16, 18))
    dumped = augmenter.dumps()
    assert (json.loads(dumped) if isinstance(dumped, str) else dumped)[0] == type(augmenter).__name__.lower()


def test_neutral_strengths_change_nothing():
    picture = gradient(8, 8).astype(np.float32)
    for augmenter in (image.BrightnessJitterAug(0), image.ContrastJitterAug(0), image.SaturationJitterAug(0)):
        assert np.allclose(augmenter(picture), picture, atol=1e-3)
    assert np.allclose(image.HueJitterAug(0)(picture), picture, atol=1.5)
    assert np.array_equal(image.HorizontalFlipAug(1)(picture), picture[:, ::-1])
    assert np.ptp(image.RandomGrayAug(1)(picture), axis=2).max() == 0


def test_noise_of_created_augmenters_has_the_components_of_imagenet():
    """The numbers of MXNet's `CreateAugmenter`, which are those of Krizhevsky's network."""
    (noise,) = (a for a in image.CreateAugmenter((3, 1, 1), pca_noise=1) if isinstance(a, image.LightingAug))
    random.seed(0)
    grey = np.zeros((1, 1, 3), np.float32)
    drawn = np.array([noise(grey)[0, 0] for _ in range(20_000)], np.float64)
    assert abs(drawn.mean(axis=0)).max() < 1
    variances, axes = np.linalg.eigh(np.cov(drawn.T))
    assert np.allclose(np.sqrt(variances), [1.148, 4.794, 55.46], rtol=0.03)
    expected = [[0.4009, 0.7192, -0.5675], [-0.8140, -0.0045, -0.5808], [0.4203, -0.6948, -0.5836]]
    assert np.allclose(abs((axes * expected).sum(axis=0)), 1, atol=1e-3)


def test_create_augmenter_makes_the_asked_shape():
    steps = image.CreateAugmenter(
        (3, 12, 10), resize=16, rand_crop=True, rand_mirror=True, mean=True, std=True, brightness=0.1, hue=0.1,
        pca_noise=0.1, rand_gray=0.2,
    )  # fmt: skip
    result = image.SequentialAug(steps)(gradient(30, 40))
    assert result.shape == (12, 10, 3) and result.dtype == np.float32 and abs(result).max() < 5
    assert [type(a).__name__ for a in image.CreateAugmenter((3, 8, 8), rand_resize=True)] == [
        "RandomSizedCropAug",
        "CastAug",
    ]


def test_augmenters_are_found_through_their_hook():
    registry = plugins.registry("augmenters")
    made = registry.get("CenterCropAug").value.make((4, 4))
    assert made(gradient(9, 9)).shape == (4, 4, 3)
    missing = [
        name for name in registry.names() if not hasattr(image, name) and registry.get(name).plugin == "io"
    ]
    assert not missing


def test_what_is_no_image_is_refused():
    with pytest.raises(ShapeError, match=r"expected \(height, width, channels\), got shape \(3, 4\)"):
        image.imresize(np.zeros((3, 4), np.uint8), 2, 2)
    with pytest.raises(ArgumentError, match="interp: expected 0 to 4 or 9, got 5"):
        image.imresize(gradient(4, 4), 2, 2, 5)
    with pytest.raises(ArgumentError, match="interp: expected 0 to 4 or 9, got 5"):
        image.imresize(gradient(4, 4).astype(np.float32), 2, 2, 5)
    with pytest.raises(ArgumentError, match="sides from 1 to"):
        image.imresize(gradient(4, 4), 0, 2)
    with pytest.raises(ArgumentError, match="sides of 1 or more, got width 0"):
        image.imresize(gradient(4, 4).astype(np.float32), 0, 2)


def test_enlarging_by_area_is_mxnets():
    picture = np.array([[0, 100, 200], [50, 250, 10]], np.uint8)[:, :, None]
    assert image.imresize(picture, 5, 3, 3).asnumpy()[:, :, 0].tolist() == [
        [0, 33, 100, 167, 200], [25, 75, 175, 128, 105], [50, 117, 250, 90, 10],
    ]  # fmt: skip
    taller = image.imresize(picture, 2, 5, 3).asnumpy()[:, :, 0].tolist()
    assert taller == [[33, 167], [33, 167], [75, 128], [117, 90], [117, 90]]


@pytest.mark.parametrize("interp", [1, 2, 3, 4])
def test_bytes_are_resized_as_floating_point_numbers_are(interp):
    generator = np.random.default_rng(interp)
    for _ in range(50):
        height, width, *size = generator.integers(1, 30, 4).tolist()
        picture = generator.integers(0, 256, (height, width, 3), np.uint8)
        expected = image.imresize(picture.astype(np.float32), *size, interp).asnumpy()
        made = image.imresize(picture, *size, interp).asnumpy()
        assert np.abs(made - expected.clip(0, 255)).max() <= 0.51


BORDERS = [
    [[0, 0, 0, 0, 0], [0, 0, 0, 0, 3], [0, 0, 0, 6, 9], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]],
    [[0, 0, 0, 0, 3], [0, 0, 0, 0, 3], [6, 6, 6, 6, 9], [6, 6, 6, 6, 9], [6, 6, 6, 6, 9]],
    [[3, 3, 0, 0, 3], [3, 3, 0, 0, 3], [9, 9, 6, 6, 9], [9, 9, 6, 6, 9], [3, 3, 0, 0, 3]],
    [[9, 6, 9, 6, 9], [3, 0, 3, 0, 3], [9, 6, 9, 6, 9], [3, 0, 3, 0, 3], [9, 6, 9, 6, 9]],
    [[9, 6, 9, 6, 9], [3, 0, 3, 0, 3], [9, 6, 9, 6, 9], [3, 0, 3, 0, 3], [9, 6, 9, 6, 9]],
]


@pytest.mark.parametrize(("kind", "expected"), list(enumerate(BORDERS)))
def test_borders_are_mxnets(kind, expected):
    picture = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    framed = image.copyMakeBorder(nd.array(picture, dtype="uint8"), 1, 2, 3, 0, type=kind)
    assert framed.dtype == np.uint8 and framed.asnumpy()[:, :, 0].tolist() == expected


def test_colours_of_borders_and_refusals():
    picture = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    assert image.copyMakeBorder(picture, 1, 0, 1, 1, value=2.5).asnumpy()[0].tolist() == [[2.5] * 3] * 4
    assert image.copyMakeBorder(picture, 0, 0, 1, 0, 0, 9.0, (1, 2, 3)).asnumpy()[1, 0].tolist() == [1, 2, 3]
    with pytest.raises(ArgumentError, match="got top -1"):
        image.copyMakeBorder(picture, -1, 0, 1, 0)
    with pytest.raises(ArgumentError, match="type 5"):
        image.copyMakeBorder(picture, 1, 0, 1, 0, type=5)
    with pytest.raises(ArgumentError, match="values: expected 3 of a channel each, got 2"):
        image.copyMakeBorder(picture, 1, 0, 1, 0, values=(1, 2))


def test_old_names_of_areas():
    random.seed(3)
    first = image.random_size_crop(gradient(20, 20), (8, 8), 0.5, (1, 1))[1]
    random.seed(3)
    assert image.random_size_crop(gradient(20, 20), (8, 8), 0.1, (1, 1), min_area=0.5)[1] == first
    assert image.RandomSizedCropAug((8, 8), 0.1, (1, 1), min_area=0.5).area == 0.5
    with pytest.raises(TypeError, match="unexpected keyword argument 'min_are'"):
        image.RandomSizedCropAug((8, 8), 0.1, (1, 1), min_are=0.5)


def test_modules_have_mxnets_names():
    import mx_io.image.image as functions

    assert image.det is image.detection and functions.ResizeAug is image.ResizeAug
    assert functions.imresize is image.imresize and not hasattr(functions, "ImageDetIter")
