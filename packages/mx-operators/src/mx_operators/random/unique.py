# SPDX-License-Identifier: Apache-2.0
"""_sample_unique_zipfian: classes drawn without replacement, for losses that sample their negatives."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mx_core import philox
from mx_core.operator import (
    Array,
    Arrays,
    Operator,
    Params,
    ReferenceContext,
    Shape,
    Shapes,
    opt,
    required,
)


class UniqueZipfianParam(Params):
    """Number of classes, how many are drawn."""

    range_max: int = required("number of classes R", lower=1)
    shape: Shape | None = opt(None, "(N, S): rows, and classes of each")


class SampleUniqueZipfian(Operator[UniqueZipfianParam]):
    """N rows of S different classes below R, and how many draws each row took.

    A draw is round(exp(u·ln R)) − 1 with u uniform, so that class k has about the probability
    1/((k + 1)·ln R); what the row has already is drawn again.
    """

    name = "_sample_unique_zipfian"
    arguments = ()
    results = ("output0", "output1")
    fixed_types = {"output0": "int64", "output1": "int64"}
    is_random = True
    differentiable = False

    def infer_shape(self, p: UniqueZipfianParam, s: Shapes) -> None:
        if p.shape is None or len(p.shape) != 2:
            raise s.error(f"shape: expected (rows, classes), got {p.shape}")
        if p.shape[1] > p.range_max:
            raise s.error(f"shape: expected at most range_max {p.range_max} classes, got {p.shape}")
        s.assign("output0", p.shape)
        s.assign("output1", p.shape[:1])

    def random_blocks(self, p: UniqueZipfianParam, output_shapes: Sequence[tuple[int, ...]]) -> int:
        """One per row: it holds the key of the row's own stream, as long as that may be."""
        return output_shapes[0][0]

    def reference(self, p: UniqueZipfianParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        rows, count = p.shape or (0, 0)
        samples, tries = np.empty((rows, count), np.int64), np.zeros(rows, np.int64)
        keys = philox.words(ctx.random_key, ctx.random_offset, rows)
        for i, words in enumerate(keys.tolist()):
            if count:
                samples[i], tries[i] = _different(words[0] | words[1] << 32, p.range_max, count)
        return samples, tries


def _different(key: int, classes: int, count: int) -> tuple[Array, int]:
    """The first `count` different draws of a stream, and how many draws that took."""
    n = 2 * count
    while True:
        u = philox.uniform(key, 0, n, np.float64)
        drawn = np.floor(np.exp(u * math.log(classes)) + 0.5).astype(np.int64) - 1
        first = np.sort(np.unique(drawn, return_index=True)[1])
        if len(first) >= count:
            return drawn[first[:count]], int(first[count - 1]) + 1
        n *= 2
