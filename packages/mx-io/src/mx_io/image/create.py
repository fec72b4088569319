# SPDX-License-Identifier: Apache-2.0
"""The usual list of augmenters."""

from __future__ import annotations

from typing import Any

import numpy as np

from mx_io.image import augmenters as aug

#: Mean and deviation of ImageNet's channels, red first.
MEAN = np.array([123.68, 116.28, 103.53])
STD = np.array([58.395, 57.12, 57.375])
EIGENVALUES = np.array([55.46, 4.794, 1.148])
EIGENVECTORS = np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]])


def CreateAugmenter(
    data_shape: tuple[int, int, int],
    resize: int = 0,
    rand_crop: bool = False,
    rand_resize: bool = False,
    rand_mirror: bool = False,
    mean: Any = None,
    std: Any = None,
    brightness: float = 0,
    contrast: float = 0,
    saturation: float = 0,
    hue: float = 0,
    pca_noise: float = 0,
    rand_gray: float = 0,
    inter_method: int = 2,
) -> list[aug.Augmenter]:
    """The augmenters that make images of `data_shape` (channels, height, width).

    Parameters
    ----------
    resize : int
        Resize the shorter side first, if positive.
    rand_crop, rand_resize : bool
        Crop at a random place; of random size, too.
    mean, std : True or array, optional
        Normalise by these; True means ImageNet's.
    brightness, contrast, saturation, hue, pca_noise, rand_gray : float
        Strength (or probability) of the random changes of colour; 0 leaves one out.
    inter_method : int
        As `interp` of `imresize`.
    """
    size = (data_shape[2], data_shape[1])
    steps: list[aug.Augmenter] = []
    if resize > 0:
        steps.append(aug.ResizeAug(resize, inter_method))
    if rand_resize:
        steps.append(aug.RandomSizedCropAug(size, 0.08, (3 / 4, 4 / 3), inter_method))
    elif rand_crop:
        steps.append(aug.RandomCropAug(size, inter_method))
    else:
        steps.append(aug.CenterCropAug(size, inter_method))
    if rand_mirror:
        steps.append(aug.HorizontalFlipAug(0.5))
    steps.append(aug.CastAug())
    if brightness or contrast or saturation:
        steps.append(aug.ColorJitterAug(brightness, contrast, saturation))
    if hue:
        steps.append(aug.HueJitterAug(hue))
    if pca_noise > 0:
        steps.append(aug.LightingAug(pca_noise, EIGENVALUES, EIGENVECTORS))
    if rand_gray > 0:
        steps.append(aug.RandomGrayAug(rand_gray))
    return steps + normalising(mean, std)


def normalising(mean: Any, std: Any) -> list[aug.Augmenter]:
    """The augmenter that normalises by a mean and a deviation, True for ImageNet's; none without both."""
    mean = MEAN if mean is True else mean
    std = STD if std is True else std
    return [] if mean is None and std is None else [aug.ColorNormalizeAug(mean, std)]
