# SPDX-License-Identifier: Apache-2.0
"""Discrete Fourier transforms of the last axis; complex numbers as pairs (real, imaginary)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mx_core.operator import Array, Arrays, Operator, Params, ReferenceContext, ShapeOnly, Shapes, opt
from mx_operators.nn.base import wide


class FourierParam(Params):
    """Nothing that counts here."""

    compute_size: int = opt(128, "accepted for compatibility: rows at a time", lower=1)


def _interleaved(x: Array, dtype: np.dtype[Any]) -> Array:
    return np.stack((x.real, x.imag), -1).reshape(*x.shape[:-1], -1).astype(dtype)


def _complex(pairs: Array) -> Array:
    split = wide(pairs).reshape(*pairs.shape[:-1], -1, 2)
    return split[..., 0] + 1j * split[..., 1]


def _transform(x: Array, dtype: np.dtype[Any]) -> Array:
    if x.size == 0:
        return np.zeros((*x.shape[:-1], 2 * x.shape[-1]), dtype)
    return _interleaved(np.fft.fft(wide(x)), dtype)


def _inverse(pairs: Array, dtype: np.dtype[Any]) -> Array:
    if pairs.size == 0:
        return np.zeros((*pairs.shape[:-1], pairs.shape[-1] // 2), dtype)
    values = _complex(pairs)
    return (np.fft.ifft(values).real * values.shape[-1]).astype(dtype)


def _rank(s: Shapes) -> tuple[int, ...] | None:
    data = s.get("data")
    if data == ():
        raise s.error("data: expected at least 1 dimension, got ()")
    return data


class FFT(Operator[FourierParam]):
    """Σⱼ dataⱼ·exp(−2πi·jk/d) for data (…, d), as (…, 2d)."""

    name = "_contrib_fft"

    def infer_shape(self, p: FourierParam, s: Shapes) -> None:
        data = _rank(s)
        if data is not None:
            s.assign("output", (*data[:-1], 2 * data[-1] if data[-1] >= 0 else -1))

    def reference(self, p: FourierParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        return (_transform(inputs[0], inputs[0].dtype),)

    def backward(self, p: FourierParam, out_grad: Array, data: ShapeOnly) -> Array:
        """The inverse transform, not normalised."""
        return _inverse(out_grad, out_grad.dtype)


class IFFT(Operator[FourierParam]):
    """Real part of Σₖ dataₖ·exp(2πi·jk/d) for data (…, 2d), as (…, d); not divided by d."""

    name = "_contrib_ifft"

    def infer_shape(self, p: FourierParam, s: Shapes) -> None:
        data = _rank(s)
        if data is None:
            return
        if data[-1] >= 0 and data[-1] % 2:
            raise s.error(f"data: expected pairs (real, imaginary) on the last axis, got {data}")
        s.assign("output", (*data[:-1], data[-1] // 2 if data[-1] >= 0 else -1))

    def reference(self, p: FourierParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        return (_inverse(inputs[0], inputs[0].dtype),)

    def backward(self, p: FourierParam, out_grad: Array, data: ShapeOnly) -> Array:
        return _transform(out_grad, out_grad.dtype)
