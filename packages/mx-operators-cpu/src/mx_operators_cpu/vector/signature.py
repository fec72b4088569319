# SPDX-License-Identifier: Apache-2.0
"""What the native functions take of a call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from mx_core.kernels import TensorSpec

Tensor: TypeAlias = tuple[tuple[int, ...], int]
COMPLEX = 13  # the first of the type codes without loops


def tensors(specs: Iterable[TensorSpec]) -> list[Tensor]:
    """(shape, type code) of each tensor."""
    return [(spec.shape, spec.dtype) for spec in specs]


def plain(*specs: TensorSpec) -> bool:
    """True if all are real and row-major."""
    return all(spec.layout == 0 and 0 <= spec.dtype < COMPLEX for spec in specs)
