# SPDX-License-Identifier: Apache-2.0
"""Images on their way into a network: every type, batches, sizes up and down."""

from __future__ import annotations

import numpy as np
import pytest
from plans import array, verify

SHAPES = [(33, 47, 3), (2, 20, 9, 1), (5, 7, 4), (1, 1, 3)]


def _image(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return rng.integers(0, 256, shape, np.uint8) if dtype == "uint8" else array(rng, shape, dtype)


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64", "float16", "int32", "bool"])
@pytest.mark.parametrize("shape", [*SHAPES, (0, 3, 3), (700, 2, 300)])
def test_to_tensor(shape: tuple[int, ...], dtype: str, rng: np.random.Generator) -> None:
    verify("_image_to_tensor", {}, [_image(rng, shape, dtype)], threads=2)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(3, 33, 47), (2, 1, 20, 9), (3, 0, 4)])
def test_normalize(shape: tuple[int, ...], dtype: str, rng: np.random.Generator) -> None:
    x = array(rng, shape, dtype)
    for attrs in ({}, {"mean": (0.5,), "std": (0.2,)}, {"mean": (0.1, 0.2, 0.3)[: shape[-3]], "std": (2.0,)}):
        verify("_image_normalize", attrs, [x])
        verify("_backward_image_normalize", attrs, [x, x])


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float16", "int64"])
@pytest.mark.parametrize("shape", SHAPES)
def test_parts_and_mirrors(shape: tuple[int, ...], dtype: str, rng: np.random.Generator) -> None:
    x = _image(rng, shape, dtype)
    height, width = shape[-3:-1]
    attrs = {"x": width // 3, "y": height // 4, "width": width - width // 3, "height": 1}
    verify("_image_crop", attrs, [x])
    part = x[..., attrs["y"] : attrs["y"] + 1, attrs["x"] :, :].copy()
    verify("_backward_image_crop", attrs, [part, x])
    if x.ndim == 3:
        for way in ("left_right", "top_bottom"):
            verify(f"_image_flip_{way}", {}, [x])
            for offset in range(6):
                verify(f"_image_random_flip_{way}", {}, [x], random=(9, offset))


def test_resize_of_many_channels(rng: np.random.Generator) -> None:
    for channels in (2, 5, 700):
        x = _image(rng, (3, 9, channels), "uint8")
        verify("_image_resize", {"size": (14, 7), "interp": 1}, [x], threads=2)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "float32", "float64", "float16"])
@pytest.mark.parametrize("interp", range(5))
@pytest.mark.parametrize("shape", SHAPES)
def test_resize(shape: tuple[int, ...], interp: int, dtype: str, rng: np.random.Generator) -> None:
    x = _image(rng, shape, dtype)
    for size in ((20, 60), (7, 5), (64, 64), (47, 33), (1, 1)):
        rtol = {"float32": 2e-5, "float64": 1e-11, "float16": 4e-3}.get(dtype)
        verify("_image_resize", {"size": size, "interp": interp}, [x], rtol=rtol, threads=2)
