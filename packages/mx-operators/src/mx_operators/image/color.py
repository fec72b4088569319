# SPDX-License-Identifier: Apache-2.0
"""Colours of images changed, by random amounts.

Numbers come from Philox counters, so they depend on the seed and on program order alone. Images of
8 bits keep their type: results are cut to 0 … 255, then towards zero.

Source: Krizhevsky, Sutskever, Hinton, ImageNet Classification with Deep Convolutional Neural
Networks, NIPS 2012, for lighting.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from mx_core import philox
from mx_core.errors import ArgumentError
from mx_core.operator import Array, Arrays, Operator, Params, ReferenceContext, Shapes, opt, required
from mx_core.operator.declaration import P
from mx_operators.image.base import image, saturated
from mx_operators.nn.base import wide

GRAY = np.array([0.299, 0.587, 0.114], np.float32)
#: principal components of ImageNet's colours, times their deviations
LIGHT = np.array([
    [-0.5675 * 55.46, 0.7192 * 4.794, 0.4009 * 1.148],
    [-0.5808 * 55.46, -0.0045 * 4.794, -0.8140 * 1.148],
    [-0.5836 * 55.46, -0.6948 * 4.794, 0.4203 * 1.148],
])  # fmt: skip


def brightness(x: Array, factor: float) -> Array:
    """Every value times a factor."""
    return x * factor


def contrast(x: Array, factor: float) -> Array:
    """Away from the mean gray by a factor."""
    gray = x @ GRAY if x.shape[-1] == 3 else x[..., 0]
    return x * factor + ((1 - factor) * gray.mean(dtype=np.float64)).astype(x.dtype)


def saturation(x: Array, factor: float) -> Array:
    """Away from the pixel's own gray by a factor."""
    return x if x.shape[-1] == 1 else x * factor + ((1 - factor) * (x @ GRAY))[..., None]


def hue(x: Array, turn: float) -> Array:
    """Hues rotated by `turn` full circles (hue, lightness, saturation)."""
    if x.shape[-1] == 1:
        return x
    scaled = x / 255
    high, low = scaled.max(-1), scaled.min(-1)
    light, span = (high + low) / 2, high - low
    safe = np.where(span > 0, span, 1)
    divisor = np.where(light < 0.5, high + low, 2 - high - low)
    full = np.where(span > 0, span / np.where(divisor == 0, 1, divisor), 0)
    red, green, blue = np.moveaxis(scaled, -1, 0)
    sector = np.where(
        high == red, (green - blue) / safe,
        np.where(high == green, (blue - red) / safe + 2, (red - green) / safe + 4),
    )  # fmt: skip
    angle = (np.where(span > 0, sector / 6, 0) + turn) % 1
    top = np.where(light <= 0.5, light * (1 + full), light + full - light * full)
    bottom = 2 * light - top
    parts = []
    for shift in (1 / 3, 0, -1 / 3):
        t = (angle + shift) % 1
        rising = bottom + (top - bottom) * 6 * t
        falling = bottom + (top - bottom) * 6 * (2 / 3 - t)
        parts.append(
            np.where(t < 1 / 6, rising, np.where(t < 0.5, top, np.where(t < 2 / 3, falling, bottom)))
        )
    return np.stack(parts, -1) * 255


def lighting(x: Array, alpha: ArrayLike) -> Array:
    """Shifted along the principal components of colours."""
    return x if x.shape[-1] == 1 else x + (LIGHT @ np.asarray(alpha, np.float64)).astype(x.dtype)


class FactorParam(Params):
    """Range of the factor."""

    min_factor: float = required("smallest factor", lower=0.0)
    max_factor: float = required("largest factor", lower=0.0)


class _Color(Operator[P]):
    """Images (H, W, C) with 1 or 3 channels; the result has shape and type of data."""

    differentiable = False
    custom_gradient = True

    def infer_shape(self, p: P, s: Shapes) -> None:
        data = image(s, batches=False)
        s.unify(["data", "output"])
        if data is not None and data[-1] not in (1, 3, -1):
            raise s.error(f"data: expected 1 or 3 channels, got {data}")

    def changed(self, p: P, x: Array, ctx: ReferenceContext) -> Array:
        """The new colours of x."""
        raise NotImplementedError

    def reference(self, p: P, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """Integers are computed with in float32."""
        data = inputs[0]
        if data.size == 0:
            return (data.copy(),)
        values = wide(data) if data.dtype.kind == "f" else data.astype(np.float32)
        return (saturated(self.changed(p, values, ctx), data.dtype),)


class _Factor(_Color[FactorParam]):
    is_random = True
    apply: ClassVar[staticmethod[[Array, float], Array]]

    def infer_shape(self, p: FactorParam, s: Shapes) -> None:
        if p.max_factor < p.min_factor:
            raise ArgumentError(
                f"[{self.name}] max_factor: expected at least min_factor {p.min_factor:g}, got {p.max_factor:g}"
            )
        super().infer_shape(p, s)

    def random_blocks(self, p: FactorParam, output_shapes: Sequence[tuple[int, ...]]) -> int:
        return 1

    def changed(self, p: FactorParam, x: Array, ctx: ReferenceContext) -> Array:
        """By a factor uniform in the range."""
        drawn = float(philox.uniform(ctx.random_key, ctx.random_offset, 1)[0])
        factor = x.dtype.type(p.min_factor + drawn * (p.max_factor - p.min_factor))
        return type(self).apply(x, factor)


class RandomBrightness(_Factor):
    """data times a factor uniform in [min_factor, max_factor]."""

    name = "_image_random_brightness"
    aliases = ("_npx__image_random_brightness",)
    apply = staticmethod(brightness)


class RandomContrast(_Factor):
    """data moved away from its mean gray by a factor uniform in [min_factor, max_factor]."""

    name = "_image_random_contrast"
    aliases = ("_npx__image_random_contrast",)
    apply = staticmethod(contrast)


class RandomSaturation(_Factor):
    """data moved away from every pixel's gray by a factor uniform in [min_factor, max_factor]."""

    name = "_image_random_saturation"
    aliases = ("_npx__image_random_saturation",)
    apply = staticmethod(saturation)


class RandomHue(_Factor):
    """The hues of data rotated by a part of the circle that is uniform in [min_factor, max_factor]."""

    name = "_image_random_hue"
    aliases = ("_npx__image_random_hue",)
    apply = staticmethod(hue)


class ColorJitterParam(Params):
    """Half widths of the ranges."""

    brightness: float = required("factor of the brightness within 1 ± this", lower=0.0)
    contrast: float = required("factor of the contrast within 1 ± this", lower=0.0)
    saturation: float = required("factor of the saturation within 1 ± this", lower=0.0)
    hue: float = required("turn of the hues within ± this part of the circle", lower=0.0)


class RandomColorJitter(_Color[ColorJitterParam]):
    """Brightness, contrast, saturation and hue of data changed at random, in random order."""

    name = "_image_random_color_jitter"
    aliases = ("_npx__image_random_color_jitter",)
    is_random = True

    def random_blocks(self, p: ColorJitterParam, output_shapes: Sequence[tuple[int, ...]]) -> int:
        """Four amounts, four for the order."""
        return 2

    def changed(self, p: ColorJitterParam, x: Array, ctx: ReferenceContext) -> Array:
        """One after the other; between steps values are not cut."""
        drawn = philox.uniform(ctx.random_key, ctx.random_offset, 8).astype(np.float64)
        steps = (
            (brightness, p.brightness, 1.0), (contrast, p.contrast, 1.0),
            (saturation, p.saturation, 1.0), (hue, p.hue, 0.0),
        )  # fmt: skip
        for i in np.argsort(drawn[4:]):
            function, width, middle = steps[i]
            if width > 0:
                x = function(x, x.dtype.type(middle + width * (2 * drawn[i] - 1)))
        return x


class AdjustLightingParam(Params):
    """Amounts."""

    alpha: tuple[float, ...] = required("amount of each of the 3 principal components")


class AdjustLighting(_Color[AdjustLightingParam]):
    """data shifted along the principal components of ImageNet's colours by `alpha`."""

    name = "_image_adjust_lighting"
    aliases = ("_npx__image_adjust_lighting",)

    def infer_shape(self, p: AdjustLightingParam, s: Shapes) -> None:
        if len(p.alpha) != 3:
            raise s.error(f"alpha: expected 3 values, got {p.alpha}")
        super().infer_shape(p, s)

    def changed(self, p: AdjustLightingParam, x: Array, ctx: ReferenceContext) -> Array:
        """One shift for all pixels."""
        return lighting(x, p.alpha)


class RandomLightingParam(Params):
    """Deviation."""

    alpha_std: float = opt(0.05, "standard deviation of the amounts", lower=0.0)


class RandomLighting(_Color[RandomLightingParam]):
    """data shifted along the principal components of colours by normal amounts."""

    name = "_image_random_lighting"
    aliases = ("_npx__image_random_lighting",)
    is_random = True

    def random_blocks(self, p: RandomLightingParam, output_shapes: Sequence[tuple[int, ...]]) -> int:
        return 1

    def changed(self, p: RandomLightingParam, x: Array, ctx: ReferenceContext) -> Array:
        """One shift for all pixels."""
        return lighting(x, philox.normal(ctx.random_key, ctx.random_offset, 3) * p.alpha_std)
