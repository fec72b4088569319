# SPDX-License-Identifier: Apache-2.0
"""Data for training: data sets, samplers that order them, and loaders that make batches."""

from mx_gluon.data import vision
from mx_gluon.data.dataloader import DataLoader
from mx_gluon.data.dataset import ArrayDataset, Dataset, RecordFileDataset, SimpleDataset
from mx_gluon.data.sampler import BatchSampler, FilterSampler, RandomSampler, Sampler, SequentialSampler

__all__ = [
    "ArrayDataset", "BatchSampler", "DataLoader", "Dataset", "FilterSampler", "RandomSampler", "RecordFileDataset",
    "Sampler", "SequentialSampler", "SimpleDataset", "vision",
]  # fmt: skip
