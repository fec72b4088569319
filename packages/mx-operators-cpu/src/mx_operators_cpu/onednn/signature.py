# SPDX-License-Identifier: Apache-2.0
"""What the kernels read from a call: signatures, windows, axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING

from mx_core import dtypes

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall, TensorSpec

#: (shape, type code) per tensor, as the native functions take them.
Specs = list[tuple[tuple[int, ...], int]]

_FLOATS = frozenset((dtypes.code("float32"), dtypes.code("bfloat16")))


def specs(tensors: Iterable[TensorSpec]) -> Specs:
    """Signatures in the native form."""
    return [(t.shape, t.dtype) for t in tensors]


def floating(call: KernelCall) -> bool:
    """Whether every tensor is plain, not empty, and of an element type oneDNN computes in."""
    tensors = (*call.inputs, *call.outputs)
    return all(t.dtype in _FLOATS and t.layout == 0 and prod(t.shape) > 0 for t in tensors)


def filled(values: Sequence[int], rank: int, default: int) -> list[int]:
    """One value per spatial axis; an empty tuple means the default everywhere."""
    return list(values) if values else [default] * rank


def channels_last(layout: str | None) -> bool:
    """Whether a layout such as `NHWC` has its channels behind the spatial axes."""
    return layout is not None and layout.endswith("C")
