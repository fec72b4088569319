# SPDX-License-Identifier: Apache-2.0
"""Arguments of native functions, made from a call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from mx_core import dtypes
from mx_core.kernels import KernelCall, TensorSpec

Tensor: TypeAlias = tuple[tuple[int, ...], int]
COMPLEX = 13  # the first of the type codes without loops


def tensors(specs: Iterable[TensorSpec]) -> list[Tensor]:
    """(shape, type code) of each tensor."""
    return [(spec.shape, spec.dtype) for spec in specs]


def plain(*specs: TensorSpec) -> bool:
    """True if all are real and row-major."""
    return all([spec.layout == 0 and 0 <= spec.dtype < COMPLEX for spec in specs])


FLOATS = frozenset(dtypes.code(n) for n in ("float16", "bfloat16", "float32", "float64"))
_DOUBLE = dtypes.code("float64")


def real(call: KernelCall) -> bool:
    """True if everything is row-major, and data and outputs are floating-point numbers."""
    specs = (call.inputs[0], *call.outputs)
    return plain(*call.inputs, *call.outputs) and all(spec.dtype in FLOATS for spec in specs)


def floating(call: KernelCall) -> bool:
    """True if everything is row-major, and all are floating-point numbers."""
    specs = (*call.inputs, *call.outputs)
    return plain(*specs) and all(spec.dtype in FLOATS for spec in specs)


_PRIMITIVE_TYPES = frozenset((dtypes.code("float32"), dtypes.code("bfloat16")))


def float32_or_bfloat16(call: KernelCall) -> bool:
    """True if every tensor is row-major, not empty, and of an element type oneDNN computes in."""
    return _all_of(call, _PRIMITIVE_TYPES)


_NATIVE_TYPES = _PRIMITIVE_TYPES | {_DOUBLE}


def native_floats(call: KernelCall) -> bool:
    """True if every tensor is row-major, not empty, and of an element type with a kernel of its own."""
    return _all_of(call, _NATIVE_TYPES)


def _all_of(call: KernelCall, types: frozenset[int]) -> bool:
    for spec in call.inputs + call.outputs:
        if spec.dtype not in types or spec.layout != 0 or 0 in spec.shape:
            return False
    return True


def accumulator(dtype: int) -> int:
    """The type that intermediate results of a floating-point type have."""
    return _DOUBLE if dtype == _DOUBLE else dtypes.code("float32")


def filled(values: tuple[int, ...], rank: int, default: int) -> tuple[int, ...]:
    """One value per spatial axis; an empty tuple means the default everywhere."""
    return values or (default,) * rank


def channels_last(layout: str | None) -> bool:
    """True if a layout such as `NHWC` has its channels after the spatial axes."""
    return layout is not None and layout.endswith("C")
