# SPDX-License-Identifier: Apache-2.0
"""The usual list of augmenters for detection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mx_core.errors import ArgumentError
from mx_io.image import augmenters as aug
from mx_io.image.create import EIGENVALUES, EIGENVECTORS, normalising
from mx_io.image.detection.augmenters import (
    DetAugmenter,
    DetBorrowAug,
    DetHorizontalFlipAug,
    DetRandomCropAug,
    DetRandomPadAug,
    DetRandomSelectAug,
)


def CreateMultiRandCropAugmenter(
    min_object_covered: Any = 0.1,
    aspect_ratio_range: Any = (0.75, 1.33),
    area_range: Any = (0.05, 1.0),
    min_eject_coverage: Any = 0.3,
    max_attempts: Any = 50,
    skip_prob: float = 0,
) -> DetRandomSelectAug:
    """One of several random crops, chosen for every image.

    Parameters
    ----------
    min_object_covered, aspect_ratio_range, area_range, min_eject_coverage, max_attempts
        As of `DetRandomCropAug`, or a list with a value for each crop; what is no list, all crops have.
    skip_prob : float
        Probability that an image is not cropped.

    Raises
    ------
    ArgumentError  lists of several lengths
    """
    given = {
        "min_object_covered": min_object_covered,
        "aspect_ratio_range": aspect_ratio_range,
        "area_range": area_range,
        "min_eject_coverage": min_eject_coverage,
        "max_attempts": max_attempts,
    }
    lengths = {name: len(value) for name, value in given.items() if isinstance(value, list)}
    count = max(lengths.values(), default=1)
    wrong = {name: length for name, length in lengths.items() if length not in (1, count)}
    if wrong or count == 0:
        raise ArgumentError(
            f"[CreateMultiRandCropAugmenter] expected lists of equal length, got {count} values and {wrong or 0}"
        )
    spread = {
        name: (value * count if len(value) == 1 else value) if isinstance(value, list) else [value] * count
        for name, value in given.items()
    }
    crops = [DetRandomCropAug(**{name: spread[name][i] for name in spread}) for i in range(count)]
    return DetRandomSelectAug(crops, skip_prob=skip_prob)


def CreateDetAugmenter(
    data_shape: Sequence[int],
    resize: int = 0,
    rand_crop: float = 0,
    rand_pad: float = 0,
    rand_gray: float = 0,
    rand_mirror: bool = False,
    mean: Any = None,
    std: Any = None,
    brightness: float = 0,
    contrast: float = 0,
    saturation: float = 0,
    pca_noise: float = 0,
    hue: float = 0,
    inter_method: int = 2,
    min_object_covered: Any = 0.1,
    aspect_ratio_range: Any = (0.75, 1.33),
    area_range: Any = (0.05, 3.0),
    min_eject_coverage: Any = 0.3,
    max_attempts: Any = 50,
    pad_val: float | Sequence[float] = (127, 127, 127),
) -> list[DetAugmenter]:
    """The augmenters of detection that make images of `data_shape` (channels, height, width).

    Parameters
    ----------
    resize : int
        Resize the shorter side first, if positive.
    rand_crop, rand_pad : float
        Probabilities that an image is cropped, and padded.
    rand_mirror : bool
        Mirror every other image, at random.
    rand_gray, brightness, contrast, saturation, hue, pca_noise, mean, std, inter_method
        As of `CreateAugmenter`.
    min_object_covered, aspect_ratio_range, area_range, min_eject_coverage, max_attempts
        Of the crops, as of `CreateMultiRandCropAugmenter`. The largest area is that of padded images, too.
    pad_val : number, or one a channel
        Colour of what is padded.
    """
    steps: list[DetAugmenter] = []
    if resize > 0:
        steps.append(DetBorrowAug(aug.ResizeAug(resize, inter_method)))
    if rand_crop > 0:
        steps.append(
            CreateMultiRandCropAugmenter(
                min_object_covered,
                aspect_ratio_range,
                area_range,
                min_eject_coverage,
                max_attempts,
                1 - rand_crop,
            )
        )
    if rand_mirror:
        steps.append(DetHorizontalFlipAug(0.5))
    if rand_pad > 0:
        largest = area_range[1] if isinstance(area_range, tuple) else max(_largest(area_range))
        padding = DetRandomPadAug(_first(aspect_ratio_range), (1.0, largest), _first(max_attempts), pad_val)
        steps.append(DetRandomSelectAug([padding], 1 - rand_pad))
    steps.append(DetBorrowAug(aug.ForceResizeAug((data_shape[2], data_shape[1]), inter_method)))
    steps.append(DetBorrowAug(aug.CastAug()))
    if brightness or contrast or saturation:
        steps.append(DetBorrowAug(aug.ColorJitterAug(brightness, contrast, saturation)))
    if hue:
        steps.append(DetBorrowAug(aug.HueJitterAug(hue)))
    if pca_noise > 0:
        steps.append(DetBorrowAug(aug.LightingAug(pca_noise, EIGENVALUES, EIGENVECTORS)))
    if rand_gray > 0:
        steps.append(DetBorrowAug(aug.RandomGrayAug(rand_gray)))
    steps += [DetBorrowAug(step) for step in normalising(mean, std)]
    return steps


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) else value


def _largest(area_range: Any) -> list[float]:
    """The largest area of each crop."""
    each = area_range if isinstance(area_range, list) else [area_range]
    return [value[1] if isinstance(value, list | tuple) else value for value in each]
