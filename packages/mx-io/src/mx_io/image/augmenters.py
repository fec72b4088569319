# SPDX-License-Identifier: Apache-2.0
"""The augmenters of `mx.image`: objects that change one image.

An augmenter takes an NDArray, or a NumPy array, of shape (height, width, channels) and returns one of the
same kind. Subclasses override `apply`, over NumPy arrays, or `__call__`, as MXNet's users do.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_io.arrays import to_ndarray, to_numpy
from mx_io.image import geometry
from mx_io.image.geometry import Array

_LUMA = np.array([0.299, 0.587, 0.114], np.float32)


class Augmenter:
    """Base of the augmenters; keyword arguments are kept for `dumps`.

    Threads: any may call one; random draws come from the generators that all threads share.
    """

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = {name: plain(value) for name, value in kwargs.items()}

    def dumps(self) -> Any:
        """Name and parameters as JSON."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def apply(self, image: Array) -> Array:
        """The changed image; may be the same array, which is never written to."""
        raise NotImplementedError(f"{type(self).__name__} has neither apply nor __call__")

    def __call__(self, src: Any) -> Any:
        """Augment an NDArray or a NumPy array."""
        if isinstance(src, np.ndarray):
            return self.apply(src)
        return to_ndarray(self.apply(to_numpy(src)))


def plain(value: Any) -> Any:
    """Something that JSON can hold."""
    if hasattr(value, "asnumpy") or isinstance(value, np.ndarray):
        return to_numpy(value).tolist()
    return value


class SequentialAug(Augmenter):
    """Several augmenters, one after the other."""

    def __init__(self, ts: Sequence[Augmenter]) -> None:
        super().__init__()
        self.ts = list(ts)

    def dumps(self) -> Any:
        """Name, and what the augmenters give; a list, as in MXNet."""
        return [type(self).__name__.lower(), [augmenter.dumps() for augmenter in self.ts]]

    def __call__(self, src: Any) -> Any:
        for augmenter in self.ts:
            src = augmenter(src)
        return src


class RandomOrderAug(SequentialAug):
    """Several augmenters, in a new random order for every image."""

    def __call__(self, src: Any) -> Any:
        for augmenter in random.sample(self.ts, len(self.ts)):
            src = augmenter(src)
        return src


class ResizeAug(Augmenter):
    """Resize the shorter side to `size`."""

    def __init__(self, size: int, interp: int = 2) -> None:
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def apply(self, image: Array) -> Array:
        return geometry.resize_short(image, self.size, self.interp)


class ForceResizeAug(Augmenter):
    """Resize to `size` (width, height) without keeping the aspect ratio."""

    def __init__(self, size: tuple[int, int], interp: int = 2) -> None:
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def apply(self, image: Array) -> Array:
        return geometry.resize(image, self.size[0], self.size[1], self.interp)


class CenterCropAug(Augmenter):
    """Cut `size` (width, height) from the middle."""

    def __init__(self, size: tuple[int, int], interp: int = 2) -> None:
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def apply(self, image: Array) -> Array:
        return geometry.crop(image, geometry.center_box(image, self.size), self.size, self.interp)


class RandomCropAug(CenterCropAug):
    """Cut `size` (width, height) from a random place."""

    def apply(self, image: Array) -> Array:
        return geometry.crop(image, geometry.random_box(image, self.size), self.size, self.interp)


class RandomSizedCropAug(Augmenter):
    """Cut a random area of random aspect ratio and resize it to `size` (width, height)."""

    def __init__(
        self,
        size: tuple[int, int],
        area: float | Sequence[float],
        ratio: Sequence[float],
        interp: int = 2,
        **kwargs: Any,
    ) -> None:
        area = geometry.area_of(area, kwargs, "RandomSizedCropAug")
        super().__init__(size=size, area=area, ratio=ratio, interp=interp)
        self.size, self.area, self.ratio, self.interp = size, area, ratio, interp

    def apply(self, image: Array) -> Array:
        box = geometry.random_area_box(image, self.size, self.area, self.ratio)
        return geometry.crop(image, box, self.size, self.interp)


class HorizontalFlipAug(Augmenter):
    """Mirror left and right with probability `p`."""

    def __init__(self, p: float) -> None:
        super().__init__(p=p)
        self.p = p

    def apply(self, image: Array) -> Array:
        return np.ascontiguousarray(image[:, ::-1]) if random.random() < self.p else image


class CastAug(Augmenter):
    """Convert to an element type."""

    def __init__(self, typ: str = "float32") -> None:
        super().__init__(type=typ)
        self.typ = typ

    def apply(self, image: Array) -> Array:
        return image.astype(self.typ)


class ColorNormalizeAug(Augmenter):
    """`(image - mean) / std`, a value a channel; None leaves a step out."""

    def __init__(self, mean: Any, std: Any) -> None:
        super().__init__(mean=mean, std=std)
        self.mean = None if mean is None else to_numpy(mean).astype(np.float32)
        self.std = None if std is None else to_numpy(std).astype(np.float32)

    def apply(self, image: Array) -> Array:
        result = image.astype(np.float32)
        if self.mean is not None:
            result -= self.mean
        if self.std is not None:
            result /= self.std
        return result


class BrightnessJitterAug(Augmenter):
    """Multiply by a random factor of 1 - brightness to 1 + brightness; the result is float32."""

    def __init__(self, brightness: float) -> None:
        super().__init__(brightness=brightness)
        self.brightness = brightness

    def apply(self, image: Array) -> Array:
        return image.astype(np.float32) * np.float32(_factor(self.brightness))


class ContrastJitterAug(Augmenter):
    """Scale about the mean grey by a random factor; the result is float32."""

    def __init__(self, contrast: float) -> None:
        super().__init__(contrast=contrast)
        self.contrast = contrast

    def apply(self, image: Array) -> Array:
        factor = np.float32(_factor(self.contrast))
        mean = _grey(image).mean(dtype=np.float32)
        return np.asarray(image.astype(np.float32) * factor + (1 - factor) * mean)


class SaturationJitterAug(Augmenter):
    """Scale about each pixel's grey by a random factor; the result is float32."""

    def __init__(self, saturation: float) -> None:
        super().__init__(saturation=saturation)
        self.saturation = saturation

    def apply(self, image: Array) -> Array:
        factor = np.float32(_factor(self.saturation))
        return image.astype(np.float32) * factor + (1 - factor) * _grey(image)


class HueJitterAug(Augmenter):
    """Rotate the colours about the grey axis of YIQ space by a random share of half a turn.

    The result is float32.
    """

    _TO_YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])
    _FROM_YIQ = np.array([[1.0, 0.956, 0.621], [1.0, -0.272, -0.647], [1.0, -1.107, 1.705]])

    def __init__(self, hue: float) -> None:
        super().__init__(hue=hue)
        self.hue = hue

    def apply(self, image: Array) -> Array:
        angle = random.uniform(-self.hue, self.hue) * np.pi
        turn = np.array([[1, 0, 0], [0, np.cos(angle), -np.sin(angle)], [0, np.sin(angle), np.cos(angle)]])
        rotation = (self._FROM_YIQ @ turn @ self._TO_YIQ).T.astype(np.float32)
        return np.asarray(image.astype(np.float32) @ rotation)


class ColorJitterAug(RandomOrderAug):
    """Brightness, contrast and saturation in random order."""

    def __init__(self, brightness: float, contrast: float, saturation: float) -> None:
        steps: list[Augmenter] = []
        if brightness > 0:
            steps.append(BrightnessJitterAug(brightness))
        if contrast > 0:
            steps.append(ContrastJitterAug(contrast))
        if saturation > 0:
            steps.append(SaturationJitterAug(saturation))
        super().__init__(steps)


class LightingAug(Augmenter):
    """Add noise along the principal components of colour; the result is float32.

    Source: Krizhevsky, Sutskever, Hinton, "ImageNet classification with deep convolutional neural networks",
    2012.
    """

    def __init__(self, alphastd: float, eigval: Any, eigvec: Any) -> None:
        super().__init__(alphastd=alphastd, eigval=eigval, eigvec=eigvec)
        self.alphastd = alphastd
        self.eigval = to_numpy(eigval).astype(np.float32)
        self.eigvec = to_numpy(eigvec).astype(np.float32)

    def apply(self, image: Array) -> Array:
        alpha = np.array([random.gauss(0, self.alphastd) for _ in range(3)], np.float32)
        return np.asarray(image.astype(np.float32) + (self.eigvec * alpha) @ self.eigval)


class RandomGrayAug(Augmenter):
    """Make grey with probability `p`, keeping three channels; the result is float32 then."""

    def __init__(self, p: float) -> None:
        super().__init__(p=p)
        self.p = p

    def apply(self, image: Array) -> Array:
        return np.repeat(_grey(image), 3, axis=2) if random.random() < self.p else image


def _factor(strength: float) -> float:
    return 1.0 + random.uniform(-strength, strength)


def _grey(image: Array) -> Array:
    grey: Array = (image.astype(np.float32) @ _LUMA)[:, :, None]
    return grey
