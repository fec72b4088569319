# SPDX-License-Identifier: Apache-2.0
"""Layers that MXNet calls experimental."""

from mx_gluon.contrib.nn.concurrent import Concurrent, HybridConcurrent, Identity
from mx_gluon.contrib.nn.pixel_shuffle import PixelShuffle1D, PixelShuffle2D, PixelShuffle3D
from mx_gluon.contrib.nn.sync_batch_norm import SyncBatchNorm

__all__ = [
    "Concurrent", "HybridConcurrent", "Identity", "PixelShuffle1D", "PixelShuffle2D", "PixelShuffle3D",
    "SyncBatchNorm",
]  # fmt: skip

#: layers of MXNet's that are not here, with why
_ABSENT = {
    "SparseEmbedding": "only dense arrays are here; nn.Embedding",
}


def __getattr__(name: str) -> object:
    if name in _ABSENT:
        raise AttributeError(f"[mx_gluon.contrib.nn.{name}] {_ABSENT[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
