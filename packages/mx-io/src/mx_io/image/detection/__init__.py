# SPDX-License-Identifier: Apache-2.0
"""Images with boxes around objects: labels, augmenters that change both, and `ImageDetIter`.

A label is an array (objects, 5 or more): the number of the class, then left, upper, right and lower border as shares
of the image's width and height, then what else belongs to an object. Files have it as one row of numbers: the length
of the head (2 or more), the numbers of an object (5 or more), the rest of the head, and the objects.
"""

from __future__ import annotations

# Programs take these from MXNet's file of this name, too.
from mx_io.image.augmenters import Augmenter as Augmenter
from mx_io.image.augmenters import CastAug as CastAug
from mx_io.image.augmenters import ColorJitterAug as ColorJitterAug
from mx_io.image.augmenters import ColorNormalizeAug as ColorNormalizeAug
from mx_io.image.augmenters import ForceResizeAug as ForceResizeAug
from mx_io.image.augmenters import HueJitterAug as HueJitterAug
from mx_io.image.augmenters import LightingAug as LightingAug
from mx_io.image.augmenters import RandomGrayAug as RandomGrayAug
from mx_io.image.augmenters import RandomOrderAug as RandomOrderAug
from mx_io.image.augmenters import ResizeAug as ResizeAug
from mx_io.image.detection.augmenters import (
    DetAugmenter,
    DetBorrowAug,
    DetHorizontalFlipAug,
    DetRandomCropAug,
    DetRandomPadAug,
    DetRandomSelectAug,
)
from mx_io.image.detection.create import CreateDetAugmenter, CreateMultiRandCropAugmenter
from mx_io.image.detection.iterator import ImageDetIter
from mx_io.image.functions import copyMakeBorder as copyMakeBorder
from mx_io.image.functions import fixed_crop as fixed_crop
from mx_io.image.iterator import ImageIter as ImageIter

__all__ = [
    "CreateDetAugmenter",
    "CreateMultiRandCropAugmenter",
    "DetAugmenter",
    "DetBorrowAug",
    "DetHorizontalFlipAug",
    "DetRandomCropAug",
    "DetRandomPadAug",
    "DetRandomSelectAug",
    "ImageDetIter",
]
