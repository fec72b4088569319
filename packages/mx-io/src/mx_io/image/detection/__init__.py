# SPDX-License-Identifier: Apache-2.0
"""Images with boxes around objects: labels, augmenters that change both, and `ImageDetIter`.

A label is an array (objects, 5 or more): the number of the class, then left, upper, right and lower border as shares
of the image's width and height, then what else belongs to an object. Files have it as one row of numbers: the length
of the head (2 or more), the numbers of an object (5 or more), the rest of the head, and the objects.
"""

from __future__ import annotations

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
