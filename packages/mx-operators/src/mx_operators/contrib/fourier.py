# SPDX-License-Identifier: Apache-2.0
"""Discrete Fourier transforms of the last axis; complex numbers as pairs (real, imaginary)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core.operator import OperatorProperty, opt, param
from mx_core.operator.property import ReferenceContext
from mx_operators.contrib.differentiable import Differentiable
from mx_operators.nn.base import wide


@param
class FourierParam:
    """Nothing that counts here."""

    compute_size: int = opt(128, "accepted for compatibility: rows at a time", lower=1)


def _interleaved(x: Any, dtype: Any) -> Any:
    return np.stack((x.real, x.imag), -1).reshape(*x.shape[:-1], -1).astype(dtype)


def _complex(pairs: Any) -> Any:
    split = wide(pairs).reshape(*pairs.shape[:-1], -1, 2)
    return split[..., 0] + 1j * split[..., 1]


def _transform(x: Any, dtype: Any) -> Any:
    if x.size == 0:
        return np.zeros((*x.shape[:-1], 2 * x.shape[-1]), dtype)
    return _interleaved(np.fft.fft(wide(x)), dtype)


def _inverse(pairs: Any, dtype: Any) -> Any:
    if pairs.size == 0:
        return np.zeros((*pairs.shape[:-1], pairs.shape[-1] // 2), dtype)
    values = _complex(pairs)
    return (np.fft.ifft(values).real * values.shape[-1]).astype(dtype)


def _rank(s: Any) -> Any:
    data = s.get("data")
    if data == ():
        raise s.error("data: expected at least 1 dimension, got ()")
    return data


class FFT(Differentiable):
    """Σⱼ dataⱼ·exp(−2πi·jk/d) for data (…, d), as (…, 2d)."""

    name = "_contrib_fft"
    Param = FourierParam

    def infer_shape(self, p: Any, s: Any) -> None:
        """Twice as long."""
        data = _rank(s)
        if data is not None:
            s.assign("output", (*data[:-1], 2 * data[-1] if data[-1] >= 0 else -1))

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """NumPy's."""
        return (_transform(inputs[0], inputs[0].dtype),)

    def pull(self, p: Any, heads: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
        """The inverse transform, not normalised."""
        return (_inverse(heads[0], heads[0].dtype),)


class IFFT(Differentiable):
    """Real part of Σₖ dataₖ·exp(2πi·jk/d) for data (…, 2d), as (…, d); not divided by d."""

    name = "_contrib_ifft"
    Param = FourierParam

    def infer_shape(self, p: Any, s: Any) -> None:
        """Half as long."""
        data = _rank(s)
        if data is None:
            return
        if data[-1] >= 0 and data[-1] % 2:
            raise s.error(f"data: expected pairs (real, imaginary) on the last axis, got {data}")
        s.assign("output", (*data[:-1], data[-1] // 2 if data[-1] >= 0 else -1))

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """NumPy's, times d."""
        return (_inverse(inputs[0], inputs[0].dtype),)

    def pull(self, p: Any, heads: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
        """The transform."""
        return (_transform(heads[0], heads[0].dtype),)


OPERATORS: tuple[type[OperatorProperty], ...] = (FFT, IFFT)
