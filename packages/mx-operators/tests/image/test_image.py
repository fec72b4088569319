# SPDX-License-Identifier: Apache-2.0
"""Image operators where no recorded case looks, and where MXNet itself is wrong.

MXNet 1.9.1 leaves the middle column (row) of a flipped image of odd extent unset, takes the blue
channel's share alone as a pixel's gray in saturation, and copies nothing when colour jitter has
nothing to change.
"""

from __future__ import annotations

import colorsys
from typing import Any

import numpy as np
import pytest

from mx_core import errors, operators
from mx_core.operator import ReferenceContext, infer_shapes
from mx_operators.image.color import GRAY

RNG = np.random.default_rng(0)


def compute(name: str, x: Any, offset: int = 0, **attrs: Any) -> Any:
    op = operators.get(f"_image_{name}")
    p = op.Param.parse(attrs, op=op.name)
    ctx = ReferenceContext(scalars=p.scalars, random_key=3, random_offset=offset)
    return op.reference(p, [x], ctx)[0]


def pixels(*shape: int) -> Any:
    return RNG.integers(0, 256, shape).astype(np.uint8)


def test_flips_of_odd_extents() -> None:
    x = pixels(3, 5, 3)
    np.testing.assert_array_equal(compute("flip_left_right", x), x[:, ::-1])
    np.testing.assert_array_equal(compute("flip_top_bottom", x), x[::-1])


def test_random_flips_happen_half_the_time() -> None:
    x = pixels(2, 3, 1)
    flipped = [np.array_equal(compute("random_flip_left_right", x, i), x[:, ::-1]) for i in range(400)]
    assert 150 < sum(flipped) < 250
    assert np.array_equal(compute("random_flip_top_bottom", x, 5), compute("random_flip_top_bottom", x, 5))


@pytest.mark.parametrize("factor", [0.0, 0.5, 1.0, 1.7])
def test_saturation_keeps_the_gray(factor: float) -> None:
    x = RNG.uniform(0, 1, (3, 2, 3))
    y = compute("random_saturation", x, min_factor=factor, max_factor=factor)
    np.testing.assert_allclose(y @ GRAY, x @ GRAY, rtol=1e-6)
    np.testing.assert_allclose(y - (x @ GRAY)[..., None], factor * (x - (x @ GRAY)[..., None]), atol=1e-6)


@pytest.mark.parametrize("turn", [0.0, 0.25, 0.7])
def test_hue_is_turned(turn: float) -> None:
    x = RNG.uniform(0, 255, (4, 3, 3))
    x[0, 0] = 77
    y = compute("random_hue", x, min_factor=turn, max_factor=turn)
    for before, after in zip(x.reshape(-1, 3), y.reshape(-1, 3), strict=True):
        h, light, s = colorsys.rgb_to_hls(*(before / 255))
        np.testing.assert_allclose(after / 255, colorsys.hls_to_rgb((h + turn) % 1, light, s), atol=1e-6)


def test_jitter_of_nothing_changes_nothing_and_amounts_stay_in_range() -> None:
    x = pixels(3, 2, 3)
    none = dict.fromkeys(("brightness", "contrast", "saturation", "hue"), 0)
    np.testing.assert_array_equal(compute("random_color_jitter", x, **none), x)
    ratios = [
        compute("random_brightness", np.ones((1, 1, 3)), i, min_factor=0.5, max_factor=2)[0, 0, 0]
        for i in range(200)
    ]
    assert 0.5 <= min(ratios) < 0.7 and 1.8 < max(ratios) <= 2
    assert compute("random_brightness", x, min_factor=9, max_factor=9).max() == 255


def test_resizing() -> None:
    x = pixels(6, 4, 3)
    for interp in (0, 1, 2, 3):
        np.testing.assert_array_equal(compute("resize", x, size=(4, 6), interp=interp), x)
        flat = compute("resize", np.full((5, 7, 1), 200, np.uint8), size=(3, 9), interp=interp)
        assert flat.shape == (9, 3, 1) and abs(flat.astype(int) - 200).max() <= 1
    halves = compute("resize", x.astype(np.float64), size=(2, 3), interp=3)
    np.testing.assert_allclose(halves, x.reshape(3, 2, 2, 2, 3).mean((1, 3)))


@pytest.mark.parametrize(
    ("size", "interp", "expected"),
    [
        ((2, 4), 3, [[73.333, 86.667], [73.333, 86.667], [80, 186.667], [80, 186.667]]),
        ((5, 3), 3, [[10, 73.333, 200, 86.667, 30], [50, 76.667, 130, 136.667, 140], [90, 80, 60, 186.667, 250]]),
        ((4, 3), 4, [[-16.633, 163.421, 167.149, -8.532], [44.593, 100.331, 143.66, 138.778],
                     [105.82, 37.24, 120.172, 286.088]]),
    ],
)  # fmt: skip
def test_resized_like_mxnet(size: tuple[int, int], interp: int, expected: Any) -> None:
    x = np.array([[10, 200, 30], [90, 60, 250]])[..., None]
    found = compute("resize", x.astype(np.float32), size=size, interp=interp)[..., 0]
    np.testing.assert_allclose(found, expected, atol=1e-3)
    whole = compute("resize", x.astype(np.uint8), size=size, interp=interp)[..., 0]
    np.testing.assert_allclose(whole, np.clip(np.rint(expected), 0, 255), atol=1)


def test_moments_of_integers_keep_their_fractions() -> None:
    x = np.arange(80, 86, dtype=np.uint8).reshape(1, 2, 3)
    found = compute("normalize", x, mean=(0.5,), std=(2.0,))
    assert found.tolist() == [[[39, 40, 40], [41, 41, 42]]]  # recorded from MXNet 1.9.1


@pytest.mark.parametrize(
    ("name", "shape", "attrs", "message"),
    [
        ("to_tensor", (3, 4), {}, r"expected \(H, W, C\)"),
        ("normalize", (2, 4, 4), {}, "1 or 3 channels"),
        ("normalize", (3, 4, 4), {"mean": (1, 2)}, "mean: expected 1 or 3 values"),
        ("normalize", (3, 4, 4), {"std": (0,)}, "std: expected no zero"),
        ("crop", (4, 3, 3), {"x": 2, "y": 0, "width": 2, "height": 2}, "width: 2 from 2 on"),
        ("flip_left_right", (2, 4, 3, 3), {}, r"expected \(H, W, C\)"),
        ("resize", (4, 4, 3), {}, "size: expected 1 or 2 values"),
        ("resize", (0, 4, 3), {"size": 3}, "empty"),
        ("random_hue", (4, 4, 2), {"min_factor": 0, "max_factor": 1}, "1 or 3 channels"),
        ("random_contrast", (4, 4, 3), {"min_factor": 1, "max_factor": 0}, "at least min_factor"),
        ("adjust_lighting", (4, 4, 3), {"alpha": (1, 2)}, "alpha: expected 3 values"),
    ],
)
def test_is_refused(name: str, shape: Any, attrs: dict[str, Any], message: str) -> None:
    op = operators.get(f"_image_{name}")
    with pytest.raises((errors.ShapeError, errors.ArgumentError), match=rf"\[_image_{name}\].*{message}"):
        infer_shapes(op, op.Param.parse(attrs, op=op.name), [shape])
