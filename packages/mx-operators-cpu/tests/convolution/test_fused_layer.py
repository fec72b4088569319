# SPDX-License-Identifier: Apache-2.0
"""Fused layers: a weight can be packed for every layer that says how large it is then."""

from __future__ import annotations

from itertools import product

import pytest

from mx_operators_cpu.library import native

FLOAT32 = 0


@pytest.mark.parametrize("kernel", [1, 3])
def test_every_packed_weight_can_be_made(kernel: int) -> None:
    """Small layers too, which one thread computes: the order of their weights may be another than for two."""
    packed = 0
    for extent, channels, filters, residual in product(
        (1, 4, 8, 28), (6, 16, 64), (6, 64, 256), (False, True)
    ):
        out = ((1, extent, extent, filters), FLOAT32)
        weight = (filters, kernel, kernel, channels)
        window = native.ConvolutionOptions(
            kernel=[kernel] * 2,
            stride=[1, 1],
            dilate=[1, 1],
            pad=[kernel // 2] * 2,
            groups=1,
            channels_last=True,
        )
        layer = native.FusedLayer(
            [((1, extent, extent, channels), FLOAT32), (weight, FLOAT32), ((filters,), FLOAT32), *[out] * residual],
            [out], window, weight_shape=weight, biased=True, residual=residual, packed=False, activation="relu",
            alpha=0.0, beta=0.0,
        )  # fmt: skip
        size = layer.packed_size()
        if not size:
            continue
        packed += 1
        for shape, channels_first in ((weight, False), ((filters, channels, kernel, kernel), True)):
            for scale in ([], [((filters,), FLOAT32)]):
                made = layer.pack([(shape, FLOAT32), *scale], [((size,), FLOAT32)], channels_first)
                assert made is not None, (extent, channels, filters, residual, channels_first, bool(scale))
    assert packed > 20
