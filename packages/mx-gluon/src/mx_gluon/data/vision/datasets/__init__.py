# SPDX-License-Identifier: Apache-2.0
"""Data sets of images: known ones in files that are there, record files, folders."""

from mx_gluon.data.vision.datasets.files import ImageFolderDataset, ImageRecordDataset
from mx_gluon.data.vision.datasets.known import CIFAR10, CIFAR100, MNIST, FashionMNIST

__all__ = ["CIFAR10", "CIFAR100", "MNIST", "FashionMNIST", "ImageFolderDataset", "ImageRecordDataset"]
