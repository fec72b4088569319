# SPDX-License-Identifier: Apache-2.0
"""Parts of Gluon that MXNet calls experimental."""

from __future__ import annotations

from mx_core.imports import lazy

__getattr__, __dir__, __all__ = lazy(__name__, {}, ["cnn", "data", "estimator", "nn", "rnn"])
