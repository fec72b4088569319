# SPDX-License-Identifier: Apache-2.0
"""Operators that fold rows and write them anew: launches out of a few functions of traced values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_core import expression as X
from mx_core.expression import Opcode, compute_dtype
from mx_operators_cuda import elementwise
from mx_operators_cuda.codegen.rows import At, RowKernel, RowTensor, write_rows
from mx_operators_cuda.codegen.source import BLOCK
from mx_operators_cuda.launch import Kind, Launch, Parameter

if TYPE_CHECKING:
    from mx_core.kernels import TensorSpec

#: opcode, function of the inputs, the scalars, the position, the number of elements, and the folds of earlier passes
Fold = tuple[Opcode, Callable[..., Any]]
#: rows of at most so many elements get one warp
_SHORT = 128
#: rows of which blocks fill a GPU, elements of a segment at least, and segments of a row at most
_ROWS, _SEGMENT, _SEGMENTS = 512, 4096, 64
FLOATS = frozenset(dtypes.code(n) for n in ("float16", "bfloat16", "float32", "float64"))


@dataclass(frozen=True)
class Rows:
    """Where rows lie: element k of row r at

    r / cycle * outer_row + r % cycle * next_row + k / inner * outer + k % inner * step.

    Tensors at CYCLE have one element for each of `cycle` rows.
    """

    rows: int
    extent: int
    cycle: int
    outer_row: int
    next_row: int
    inner: int
    outer: int
    step: int
    #: of the tensor
    elements: int

    @classmethod
    def along(cls, shape: Sequence[int], axis: int) -> Rows:
        """A row per index of all axes but one."""
        stride, extent = max(prod(shape[axis + 1 :]), 1), shape[axis]
        rows = prod(shape) // extent if extent else 0
        return cls(rows, extent, stride, extent * stride, 1, max(extent, 1), 0, stride, prod(shape))

    @classmethod
    def of(cls, shape: Sequence[int], axis: int) -> Rows:
        """A row per index of one axis: a channel."""
        stride, rows = max(prod(shape[axis + 1 :]), 1), shape[axis]
        extent = prod(shape) // rows if rows else 0
        return cls(rows, extent, 1, stride, 0, stride, rows * stride, 1, prod(shape))

    @classmethod
    def blocks(cls, rows: int, extent: int, cycle: int) -> Rows:
        """Contiguous rows in cycles."""
        return cls(rows, extent, cycle, cycle * extent, extent, max(extent, 1), 0, 1, rows * extent)


@dataclass(frozen=True)
class Operand:
    """A tensor of a plan as one of a kernel over rows."""

    place: Parameter
    dtype: int
    at: At = At.ELEMENT


def launches(
    name: str,
    where: Rows,
    inputs: Sequence[Operand],
    outputs: Sequence[Operand],
    passes: Sequence[Sequence[Fold]] = (),
    result: Callable[..., Any] | None = None,
    summary: Callable[..., Any] | None = None,
    *,
    scalars: int = 0,
    scratch: int = 0,
) -> tuple[list[Launch], list[int]]:
    """The kernels, and the bytes of scratch between them; `scratch` is the number of the first piece.

    Raises
    ------
    TypeError  the inputs are not computed in float32 or float64
    """
    if where.rows == 0 or (where.extent == 0 and summary is None):
        return [], []
    compute = compute_dtype(tuple(t.dtype for t in inputs))
    if compute not in (0, 1):
        raise TypeError(f"[{name}] rows are computed in floating point")
    known = len(inputs) + scalars + 2
    traced = []
    for one in passes:
        traced.append(tuple((opcode, X.trace(function, known)) for opcode, function in one))
        known += len(one)
    narrow = where.elements < 1 << 31
    kernel = RowKernel(
        compute, tuple(RowTensor(t.dtype, t.at) for t in inputs), tuple(RowTensor(t.dtype, t.at) for t in outputs),
        tuple(traced), None if result is None else X.trace(result, known),
        None if summary is None else X.trace(summary, known), scalars,
        32 if where.extent <= _SHORT else BLOCK, narrow, where.outer != 0,
    )  # fmt: skip
    segments = _segments(where) if kernel.folds else _cut(where)
    index = Kind.UINT32 if narrow else Kind.UINT64
    numbers = (
        where.rows, where.extent, where.cycle, where.outer_row, where.next_row, where.inner, where.outer, where.step,
        segments,
    )  # fmt: skip
    tail = (*((index, n) for n in numbers), *((Kind.SCALAR, i) for i in range(scalars)))
    reads, writes = tuple(t.place for t in inputs), []
    for t in outputs:
        request = (Kind.REQUEST, t.place[1]) if t.place[0] is Kind.OUTPUT else (Kind.UINT32, 1)
        writes += [t.place, request]
    threads, symbol = where.rows * segments * kernel.block, elementwise.symbol(name)
    if segments == 1 or not kernel.folds:
        return [Launch(write_rows(symbol, kernel), threads, (*reads, *writes, *tail))], []
    parts: Parameter = (Kind.SCRATCH, scratch)
    steps = []
    for stage in range(len(passes) + 1):
        last = stage == len(passes)
        source = write_rows(symbol if last else f"{symbol}_fold{stage}", kernel, stage)
        steps.append(Launch(source, threads, (*reads, *(writes if last else ()), parts, *tail)))
    return steps, [kernel.folds * where.rows * segments * dtypes.itemsize(compute)]


def _segments(where: Rows) -> int:
    """Segments of a row: enough to fill a GPU, each with enough to do."""
    return max(1, min(-(-_ROWS // where.rows), where.extent // _SEGMENT, _SEGMENTS))


def _cut(where: Rows) -> int:
    """The same where nothing is folded."""
    return max(1, min(-(-_ROWS // where.rows), -(-where.extent // BLOCK)))


def floating(specs: Sequence[TensorSpec]) -> bool:
    """Whether all tensors are plain and of floating-point types."""
    return all(spec.dtype in FLOATS and not spec.layout for spec in specs)


def read(i: int, spec: TensorSpec, at: At = At.ELEMENT) -> Operand:
    """Input `i`."""
    return Operand((Kind.INPUT, i), spec.dtype, at)


def write(o: int, spec: TensorSpec, at: At = At.ELEMENT) -> Operand:
    """Output `o`."""
    return Operand((Kind.OUTPUT, o), spec.dtype, at)
