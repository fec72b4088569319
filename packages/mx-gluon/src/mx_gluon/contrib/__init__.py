# SPDX-License-Identifier: Apache-2.0
"""Parts of Gluon that MXNet calls experimental."""

from __future__ import annotations

from typing import Any

from mx_core.imports import lazy

#: parts of MXNet's that are not here yet, with what there is instead
_ABSENT = {
    "cnn": "deformable convolutions of Gluon are not implemented; nd.contrib.DeformableConvolution is",
    "data": "loaders of texts and of detection data are not implemented; data has the other ones",
}

_found, __dir__, __all__ = lazy(__name__, {}, ["estimator", "nn", "rnn"])


def __getattr__(name: str) -> Any:
    if name in _ABSENT:
        raise AttributeError(f"[mx_gluon.contrib.{name}] {_ABSENT[name]}")
    return _found(name)
