# SPDX-License-Identifier: Apache-2.0
"""Operators called by name on NumPy arrays, the way the framework calls them; scratch memory is kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mx_core import _native, dtypes, operators
from mx_core.context import cpu
from mx_core.kernels import TensorSpec, prepare
from mx_core.operator import ReferenceContext
from mx_core.operator.infer import infer_shapes, infer_types

NULL, WRITE = 0, 1
THREADS = len(os.sched_getaffinity(0))


def _buffers(arrays: Sequence[np.ndarray]) -> list[Any]:
    """Arrays as the runner takes them: bfloat16 has no buffer format of its own."""
    return [(a.view(np.uint16), dtypes.code(a.dtype)) if a.dtype.name == "bfloat16" else a for a in arrays]


def aligned(array: np.ndarray) -> np.ndarray:
    """A copy that begins where a cache line does, as arrays of the framework do."""
    memory = np.empty(array.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    result = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    result[...] = array
    return result


def _zeros(shape: Sequence[int | None] | None, code: int | None) -> np.ndarray:
    """An output as inference describes it."""
    if shape is None or code is None or None in shape:
        raise ValueError(f"an output's shape {shape} or type {code} does not follow from the inputs")
    return aligned(np.zeros([n for n in shape if n is not None], dtypes.numpy_dtype(code)))


def _specs(arrays: Sequence[np.ndarray]) -> list[TensorSpec]:
    """What kernels are chosen by."""
    return [TensorSpec(x.shape, dtypes.code(x.dtype)) for x in arrays]


def caller(
    name: str,
    attrs: Mapping[str, Any],
    inputs: Sequence[np.ndarray],
    *,
    is_train: bool = True,
    threads: int = THREADS,
    into: Sequence[np.ndarray] | None = None,
    requests: Sequence[int] | None = None,
) -> tuple[Callable[[], object], list[np.ndarray], str]:
    """A function that runs the operator once, its outputs (`into`, else new ones), and the kernel's variant.

    `requests` are WRITE unless they are given.
    """
    op = operators.get(name)
    p = op.Param.parse(attrs, op=name)
    shapes = infer_shapes(op, p, [x.shape for x in inputs])[1]
    types = infer_types(op, p, [dtypes.code(x.dtype) for x in inputs])[1]
    outputs = list(into) if into else [_zeros(s, t) for s, t in zip(shapes, types, strict=True)]
    made = prepare(op, p, _specs(inputs), _specs(outputs), cpu(), is_train)
    if made.plan is None:
        return referee(name, attrs, inputs, is_train=is_train), outputs, made.variant
    given, taken, asked = _buffers(inputs), _buffers(outputs), requests or [WRITE] * len(outputs)

    def run() -> None:
        _native.run_plan(
            made.plan, given, taken, asked, is_train=is_train, scalars=p.scalars, threads=threads
        )

    return run, outputs, made.variant


def referee(
    name: str, attrs: Mapping[str, Any], inputs: Sequence[np.ndarray], *, is_train: bool = True
) -> Callable[[], object]:
    """A function that runs the operator's reference once."""
    op = operators.get(name)
    p = op.Param.parse(attrs, op=name)
    context = ReferenceContext(is_train, p.scalars)
    return lambda: op.reference(p, inputs, context)
