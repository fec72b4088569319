# SPDX-License-Identifier: Apache-2.0
"""Augmenters of detection: objects that change an image and the boxes on it together.

Random choices come from Python's `random` module, as those of `mx_io.image.augmenters` do.
"""

from __future__ import annotations

import json
import logging
import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core.errors import ArgumentError, DTypeError
from mx_io.arrays import to_ndarray, to_numpy
from mx_io.image.augmenters import Augmenter, plain
from mx_io.image.detection import labels
from mx_io.image.detection.labels import Objects
from mx_io.image.geometry import Array

_LOG = logging.getLogger("mx_io.image")


class DetAugmenter:
    """Base of the augmenters of detection; keyword arguments are kept for `dumps`.

    Subclasses override `apply`, over NumPy arrays, or `__call__`.

    Threads: any may call one; random draws come from the generators that all threads share.
    """

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = {name: plain(value) for name, value in kwargs.items()}

    def dumps(self) -> Any:
        """Name and parameters as JSON; what holds other augmenters gives a list: the name, and what they give."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def apply(self, image: Array, label: Objects) -> tuple[Array, Objects]:
        """The changed image and label; may be the same arrays, which are never written to."""
        raise NotImplementedError(f"{type(self).__name__} has neither apply nor __call__")

    def __call__(self, src: Any, label: Any) -> tuple[Any, Objects]:
        """Augment an NDArray or a NumPy array (height, width, channels), and its label (objects, 5 or more).

        Returns
        -------
        image : NDArray or ndarray, as given
        label : ndarray of float32
        """
        objects = np.asarray(to_numpy(label), np.float32)
        if isinstance(src, np.ndarray):
            return self.apply(src, objects)
        image = to_numpy(src)
        changed, objects = self.apply(image, objects)
        return (src if changed is image else to_ndarray(changed)), objects


class DetBorrowAug(DetAugmenter):
    """An augmenter that moves nothing in the image, such as one of colours; the label stays.

    Raises
    ------
    DTypeError  it is not an `Augmenter`
    """

    def __init__(self, augmenter: Augmenter) -> None:
        if not isinstance(augmenter, Augmenter):
            raise DTypeError(
                f"[DetBorrowAug] augmenter: expected an Augmenter, got {type(augmenter).__name__}"
            )
        super().__init__()
        self.augmenter = augmenter

    def dumps(self) -> Any:
        return [type(self).__name__.lower(), self.augmenter.dumps()]

    def __call__(self, src: Any, label: Any) -> tuple[Any, Objects]:
        return self.augmenter(src), np.asarray(to_numpy(label), np.float32)


class DetRandomSelectAug(DetAugmenter):
    """One of several augmenters, chosen at random for every image, or none of them with probability `skip_prob`.

    Raises
    ------
    ArgumentError  one of them is not a `DetAugmenter`
    """

    def __init__(self, aug_list: DetAugmenter | Sequence[DetAugmenter], skip_prob: float = 0) -> None:
        super().__init__(skip_prob=skip_prob)
        one: Any = aug_list
        self.aug_list: list[DetAugmenter] = list(one) if isinstance(one, list | tuple) else [one]
        for augmenter in self.aug_list:
            if not isinstance(augmenter, DetAugmenter):
                raise ArgumentError(
                    f"[DetRandomSelectAug] aug_list: expected DetAugmenters, got {type(augmenter).__name__}"
                )
        self.skip_prob = skip_prob if self.aug_list else 1

    def dumps(self) -> Any:
        return [type(self).__name__.lower(), [augmenter.dumps() for augmenter in self.aug_list]]

    def __call__(self, src: Any, label: Any) -> tuple[Any, Objects]:
        if random.random() < self.skip_prob:
            return src, np.asarray(to_numpy(label), np.float32)
        return random.choice(self.aug_list)(src, label)


class DetHorizontalFlipAug(DetAugmenter):
    """Mirror left and right with probability `p`."""

    def __init__(self, p: float) -> None:
        super().__init__(p=p)
        self.p = p

    def apply(self, image: Array, label: Objects) -> tuple[Array, Objects]:
        if random.random() >= self.p:
            return image, label
        flipped = label.copy()
        flipped[:, 1], flipped[:, 3] = 1 - label[:, 3], 1 - label[:, 1]
        return np.ascontiguousarray(image[:, ::-1]), flipped


class DetRandomCropAug(DetAugmenter):
    """Cut out a random region that shows enough of the objects that it touches.

    Parameters
    ----------
    min_object_covered : float
        More than this share of every object that the region touches must lie in it.
    aspect_ratio_range, area_range : (float, float), or one number for both
        Of the region: width by height, and its share of the image.
    min_eject_coverage : float
        Objects of which no more than this share lies in the region are dropped; one must be left.
    max_attempts : int
        Regions that are tried; if none will do, nothing changes.

    Notes
    -----
    Ranges whose first number is larger than the second switch it off, with a warning.

    Source: Liu et al., "SSD: Single Shot MultiBox Detector", 2016, section 2.2.
    """

    def __init__(
        self,
        min_object_covered: float = 0.1,
        aspect_ratio_range: float | Sequence[float] = (0.75, 1.33),
        area_range: float | Sequence[float] = (0.05, 1.0),
        min_eject_coverage: float = 0.3,
        max_attempts: int = 50,
    ) -> None:
        ratios, shares = _range(aspect_ratio_range), _range(area_range)
        super().__init__(
            min_object_covered=min_object_covered,
            aspect_ratio_range=ratios,
            area_range=shares,
            min_eject_coverage=min_eject_coverage,
            max_attempts=max_attempts,
        )
        self.min_object_covered, self.min_eject_coverage = min_object_covered, min_eject_coverage
        self.aspect_ratio_range, self.area_range, self.max_attempts = ratios, shares, max_attempts
        self.enabled = _usable(self, shares[1] > 0 and shares[0] <= shares[1])

    def apply(self, image: Array, label: Objects) -> tuple[Array, Objects]:
        if not self.enabled:
            return image, label
        height, width = image.shape[:2]
        for _ in range(self.max_attempts):
            size = self._size(height, width)
            if size is None:
                continue
            h, w = size
            y, x = random.randint(0, height - h), random.randint(0, width - w)
            left = self._left(label, x / width, y / height, w / width, h / height)
            if left is not None:
                return np.ascontiguousarray(image[y : y + h, x : x + w]), left
        return image, label

    def _size(self, height: int, width: int) -> tuple[int, int] | None:
        """Height and width of a region; None when none of a drawn aspect ratio fits."""
        ratio = random.uniform(*self.aspect_ratio_range)
        low, high = (share * height * width for share in self.area_range)
        least = max(1, math.ceil(math.sqrt(low / ratio)))
        most = math.floor(min(math.sqrt(high / ratio), height, (width + 0.4999999) / ratio))
        if least > most:
            return None
        h = random.randint(least, most)
        w = round(h * ratio)
        return (h, w) if w > 0 and low <= h * w <= high else None

    def _left(self, label: Objects, x: float, y: float, w: float, h: float) -> Objects | None:
        """The objects that a region shows; None when it shows too little of one, or none."""
        cut = labels.inside(label, x, y, x + w, y + h)
        whole = labels.areas(label)
        shown = np.divide(labels.areas(cut), whole, out=np.zeros_like(whole), where=whole > 0)
        touched = shown[shown > 0]
        if not len(touched) or touched.min() <= self.min_object_covered:
            return None
        kept = labels.moved(cut[(shown > self.min_eject_coverage) & (shown > 0)], x, y, w, h)
        return np.clip(kept, *_borders(kept)) if len(kept) else None


class DetRandomPadAug(DetAugmenter):
    """Put the image at a random place of a larger one of one colour.

    Parameters
    ----------
    aspect_ratio_range, area_range : (float, float), or one number for both
        Of the larger image: width by height, and how many times the image's area it has.
    max_attempts : int
        Sizes that are tried; if none will do, nothing changes.
    pad_val : number, or one a channel
        The colour.

    Notes
    -----
    Ranges whose first number is larger than the second, or areas of 1 at most, switch it off, with a warning.
    """

    def __init__(
        self,
        aspect_ratio_range: float | Sequence[float] = (0.75, 1.33),
        area_range: float | Sequence[float] = (1.0, 3.0),
        max_attempts: int = 50,
        pad_val: float | Sequence[float] = (128, 128, 128),
    ) -> None:
        ratios, shares = _range(aspect_ratio_range), _range(area_range)
        super().__init__(
            aspect_ratio_range=ratios, area_range=shares, max_attempts=max_attempts, pad_val=pad_val
        )
        self.aspect_ratio_range, self.area_range = ratios, shares
        self.max_attempts, self.pad_val = max_attempts, pad_val
        self.enabled = _usable(self, shares[1] > 1 and shares[0] <= shares[1])

    def apply(self, image: Array, label: Objects) -> tuple[Array, Objects]:
        if not self.enabled:
            return image, label
        height, width, channels = image.shape
        for _ in range(self.max_attempts):
            ratio = random.uniform(*self.aspect_ratio_range)
            low, high = (share * height * width for share in self.area_range)
            least = math.ceil(max(math.sqrt(low / ratio), height, width / ratio))
            most = math.floor(math.sqrt(high / ratio))
            if least > most:
                continue
            h = random.randint(least, most)
            w = max(width, round(h * ratio))
            if (h, w) == (height, width):
                continue
            y, x = random.randint(0, h - height), random.randint(0, w - width)
            colour = np.asarray(self.pad_val, image.dtype).ravel()
            larger = np.empty((h, w, channels), image.dtype)
            larger[:] = colour[:channels] if len(colour) > 1 else colour
            larger[y : y + height, x : x + width] = image
            return larger, labels.moved(label, -x / width, -y / height, w / width, h / height)
        return image, label


def _borders(objects: Objects) -> tuple[Objects, Objects]:
    """Smallest and largest values: borders are from 0 to 1, the other numbers what they are."""
    low, high = objects.copy(), objects.copy()
    low[:, 1:5], high[:, 1:5] = 0, 1
    return low, high


def _range(given: float | Sequence[float]) -> tuple[float, float]:
    if isinstance(given, list | tuple | np.ndarray):
        low, high = given
        return low, high
    number: Any = given
    return number, number


def _usable(augmenter: Any, areas_do: bool) -> bool:
    """Whether the ranges of an augmenter have something in them; a warning if not."""
    low, high = augmenter.aspect_ratio_range
    if areas_do and 0 < low <= high:
        return True
    _LOG.warning(
        "%s is switched off: expected ranges that ascend, got aspect_ratio_range %s and area_range %s",
        type(augmenter).__name__,
        augmenter.aspect_ratio_range,
        augmenter.area_range,
    )
    return False
