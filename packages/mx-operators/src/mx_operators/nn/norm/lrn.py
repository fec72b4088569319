# SPDX-License-Identifier: Apache-2.0
"""LRN: local response normalisation across channels."""

from __future__ import annotations

import numpy as np

from mx_core.operator import Array, Arrays, Operator, Params, ReferenceContext, Shapes, opt, required
from mx_operators.nn.base import wide


class LRNParam(Params):
    """Window and constants."""

    alpha: float = opt(1e-4, "weight of the squared neighbours")
    beta: float = opt(0.75, "exponent")
    knorm: float = opt(2.0, "constant term")
    nsize: int = required(
        "neighbouring channels summed over; of an even number, one less", lower=1, upper=2**31 - 1
    )


def _neighbours(squares: Array, nsize: int) -> Array:
    total = np.zeros_like(squares)
    c = squares.shape[1]
    half = min((nsize - 1) // 2, c)
    for offset in range(-half, half + 1):
        low, high = max(0, -offset), min(c, c - offset)
        if low < high:
            total[:, low:high] += squares[:, low + offset : high + offset]
    return total


class LRN(Operator[LRNParam]):
    """x / (knorm + alpha/nsize · Σ neighbours²)^beta across channels of (N, C, …).

    Source: Krizhevsky, Sutskever and Hinton, ImageNet Classification, NIPS 2012, section 3.3.
    """

    name = "LRN"
    results = ("output", "tmp_norm")
    hidden = ("tmp_norm",)

    def infer_shape(self, p: LRNParam, s: Shapes) -> None:
        """All equal; there are channels."""
        super().infer_shape(p, s)
        data = s.get("data")
        if data is not None and len(data) < 2:
            raise s.error(f"data: expected (batch, channels, ...), got {data}")

    def reference(self, p: LRNParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """A windowed sum over channels."""
        x = wide(inputs[0])
        norm = p.knorm + p.alpha / p.nsize * _neighbours(x * x, p.nsize)
        return tuple(a.astype(inputs[0].dtype) for a in (x * norm**-p.beta, norm))

    def backward(self, p: LRNParam, out_grad: Array, data: Array, tmp_norm: Array) -> Array:
        """Direct term minus what flows through the neighbours."""
        through = _neighbours(out_grad * data * tmp_norm ** (-p.beta - 1), p.nsize)
        grad: Array = out_grad * tmp_norm**-p.beta - 2 * p.alpha * p.beta / p.nsize * data * through
        return grad
