# SPDX-License-Identifier: Apache-2.0
"""Data sets of images, and transforms of images."""

from mx_gluon.data.vision import transforms
from mx_gluon.data.vision.datasets import (
    CIFAR10,
    CIFAR100,
    MNIST,
    FashionMNIST,
    ImageFolderDataset,
    ImageRecordDataset,
)

__all__ = [
    "CIFAR10", "CIFAR100", "MNIST", "FashionMNIST", "ImageFolderDataset", "ImageRecordDataset", "transforms",
]  # fmt: skip
