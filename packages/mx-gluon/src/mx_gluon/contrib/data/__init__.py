# SPDX-License-Identifier: Apache-2.0
"""Data sets of texts, and a sampler, that MXNet calls experimental."""

from mx_gluon.contrib.data import text
from mx_gluon.contrib.data.sampler import IntervalSampler

__all__ = ["IntervalSampler", "text"]
