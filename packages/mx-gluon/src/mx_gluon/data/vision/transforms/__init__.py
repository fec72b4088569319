# SPDX-License-Identifier: Apache-2.0
"""Transforms of images, as blocks: arrays of shape (height, width, channels) until `ToTensor`."""

from mx_gluon.data.vision.transforms.chains import Compose, RandomApply
from mx_gluon.data.vision.transforms.colours import (
    RandomBrightness,
    RandomColorJitter,
    RandomContrast,
    RandomHue,
    RandomLighting,
    RandomSaturation,
)
from mx_gluon.data.vision.transforms.geometry import (
    CenterCrop,
    CropResize,
    RandomFlipLeftRight,
    RandomFlipTopBottom,
    RandomResizedCrop,
    RandomRotation,
    Resize,
    Rotate,
)
from mx_gluon.data.vision.transforms.numbers import Cast, Normalize, ToTensor

__all__ = [
    "Cast", "CenterCrop", "Compose", "CropResize", "Normalize", "RandomApply", "RandomBrightness", "RandomColorJitter",
    "RandomContrast", "RandomFlipLeftRight", "RandomFlipTopBottom", "RandomHue", "RandomLighting",
    "RandomResizedCrop", "RandomRotation", "RandomSaturation", "Resize", "Rotate", "ToTensor",
]  # fmt: skip
