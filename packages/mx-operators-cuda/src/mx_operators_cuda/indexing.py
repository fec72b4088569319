# SPDX-License-Identifier: Apache-2.0
"""Elements by index on a GPU: gathers, scatters, one_hot.

No kernel can raise an error about the values it reads. So `take` with mode "raise" is declined, and indices of
several axes (`gather_nd` and its relatives) are limited to the array, below 0 too, where a CPU raises or
counts from the end.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_operators_cuda import elementwise, written
from mx_operators_cuda.codegen import names
from mx_operators_cuda.launch import Kind, Launch, make_plan
from mx_operators_cuda.sort import Keys, order

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

_BOUNDS = {"clip": 0, "wrap": 1}
_INT64, _INT32 = dtypes.code("int64"), dtypes.code("int32")
#: axes that one index may have
_AXES = 8


def _fits(call: KernelCall, extents: tuple[int, ...], mode: str) -> bool:
    specs = (*call.inputs, *call.outputs)
    plain = not any(s.layout or s.dtype not in names.STORAGE for s in specs)
    return plain and mode in _BOUNDS and len(extents) <= _AXES


def _table(extents: tuple[int, ...], n: int, mode: str) -> written.Argument:
    numbers = (len(extents), *extents, *(1,) * (_AXES - len(extents)), n, _BOUNDS[mode])
    return written.struct("indexing::Table", [written.number(value) for value in numbers])


def _gather(
    call: KernelCall, values: int, indices: int, extents: tuple[int, ...], outer: int, inner: int, mode: str
) -> Any:
    """Slices of `inner` elements; an axis without any is an error of the operator's reference alone."""
    if not _fits(call, extents, mode) or (0 in extents and prod(call.outputs[0].shape) > 0):
        return None
    code, index = call.inputs[values].dtype, call.inputs[indices]
    count = prod(index.shape) // max(len(extents), 1) if extents else prod(index.shape[1:])
    arguments = [
        written.read((Kind.INPUT, values), code), written.read((Kind.INPUT, indices), index.dtype),
        written.write((Kind.OUTPUT, 0), code), written.number(outer), written.number(inner),
        _table(extents, count, mode),
    ]  # fmt: skip
    types, n = (
        [written.value_type(code), names.STORAGE[code], names.STORAGE[index.dtype]],
        outer * count * inner,
    )
    steps = [written.launch(call.op.name, "indexing::gather", types, arguments, n)] if n else []
    return make_plan(call.op.name, call.context, call.inputs, call.outputs, steps)


def _scatter(
    call: KernelCall,
    values: int,
    indices: int,
    extents: tuple[int, ...],
    outer: int,
    inner: int,
    mode: str,
    action: str,
) -> Any:
    """Slices written into zeros, or into the first input (`assign`), or added up (`sum`)."""
    if not _fits(call, extents, mode) or not extents:
        return None
    output, index = call.outputs[0], call.inputs[indices]
    code, n = output.dtype, prod(index.shape) // len(extents)
    if n >= 1 << 31 or call.inputs[values].dtype != code or (0 in extents and n * inner * outer):
        return None
    assigned = action == "assign"
    background = elementwise.kernel(
        call.op.name,
        elementwise.identity() if assigned else elementwise.ZERO,
        call.inputs[:1] if assigned else [],
        [output],
    )
    assert background is not None
    steps: list[Launch] = [background] if background.threads else []
    scratch: list[int] = []
    if n * outer * inner:
        given = [written.read((Kind.INPUT, indices), index.dtype), written.write((Kind.SCRATCH, 0), _INT64)]
        types = [names.STORAGE[index.dtype]]
        steps.append(
            written.launch(call.op.name, "indexing::rows", types, [*given, _table(extents, n, mode)], n)
        )
        found = order(call.op.name, Keys(1, n, 1), (Kind.SCRATCH, 0), _INT64, scratch=1)
        arguments = [
            written.read((Kind.INPUT, values), code), written.read((Kind.SCRATCH, 0), _INT64),
            written.read(found.place, _INT32), written.write((Kind.OUTPUT, 0), code),
            *map(written.number, (outer, n, inner, prod(extents))),
        ]  # fmt: skip
        kind = "mx::indexing::kSum" if action == "sum" else "mx::indexing::kReplace"
        types = [written.value_type(code), kind, names.STORAGE[code]]
        made = written.launch(call.op.name, "indexing::scatter", types, arguments, n * outer * inner)
        steps, scratch = [*steps, *found.steps, made], [8 * n, *found.scratch]
    return make_plan(
        call.op.name, call.context, call.inputs, call.outputs, steps, scratch=scratch, adds=not assigned
    )


def _along(shape: tuple[int, ...], axis: int) -> tuple[tuple[int, ...], int, int]:
    """Extent, outer and inner size of an axis."""
    axis %= len(shape)
    return (shape[axis],), prod(shape[:axis]), prod(shape[axis + 1 :])


def take(call: KernelCall) -> Any:
    """Slices along an axis."""
    p: Any = call.params
    return _gather(call, 0, 1, *_along(call.inputs[0].shape, p.axis), p.mode)


def backward_take(call: KernelCall) -> Any:
    """The gradient's slices added up where they came from."""
    p: Any = call.params
    return _scatter(call, 0, 2, *_along(call.outputs[0].shape, p.axis), p.mode, "sum")


def embedding(call: KernelCall) -> Any:
    """Rows of the weight."""
    p: Any = call.params
    return _gather(call, 1, 0, (p.input_dim,), 1, p.output_dim, "clip")


def backward_embedding(call: KernelCall) -> Any:
    """Rows of the gradient added up."""
    p: Any = call.params
    return _scatter(call, 0, 1, (p.input_dim,), 1, p.output_dim, "clip", "sum")


def pick(call: KernelCall) -> Any:
    """One element per row; batch_take is the case of axis 1."""
    p: Any = call.params
    axis, mode = (1, "clip") if call.op.name == "batch_take" else (p.axis, p.mode)
    data, index = call.inputs
    if axis is None:
        return _gather(call, 0, 1, (prod(data.shape),), 1, 1, mode)
    extents, _, inner = _along(data.shape, axis)
    if not _fits(call, extents, mode) or (0 in extents and prod(index.shape) > 0):
        return None
    n, code = prod(index.shape), data.dtype
    arguments = [
        written.read((Kind.INPUT, 0), code), written.read((Kind.INPUT, 1), index.dtype),
        written.write((Kind.OUTPUT, 0), code), written.number(max(inner, 1)), _table(extents, n, mode),
    ]  # fmt: skip
    types = [written.value_type(code), names.STORAGE[code], names.STORAGE[index.dtype]]
    steps = [written.launch(call.op.name, "indexing::pick", types, arguments, n)] if n else []
    return make_plan(call.op.name, call.context, call.inputs, call.outputs, steps)


def gather_nd(call: KernelCall) -> Any:
    """Elements or slices by several indices."""
    m = call.inputs[1].shape[0]
    shape = call.inputs[0].shape
    return _gather(call, 0, 1, shape[:m], 1, prod(shape[m:]), "clip") if m else None


def backward_gather_nd(call: KernelCall) -> Any:
    """The gradient added up where it came from."""
    return _scattered(call, 0, 2, "sum")


def scatter_nd(call: KernelCall) -> Any:
    """Zeros with elements or slices written; the last of equal indices counts."""
    return _scattered(call, 0, 1, "set")


def scatter_set_nd(call: KernelCall) -> Any:
    """Elements or slices of the first input replaced; the last of equal indices counts."""
    return _scattered(call, 1, 2, "assign")


def _scattered(call: KernelCall, values: int, indices: int, action: str) -> Any:
    m = call.inputs[indices].shape[0]
    shape = call.outputs[0].shape
    return _scatter(call, values, indices, shape[:m], 1, prod(shape[m:]), "clip", action)


def one_hot(call: KernelCall) -> Any:
    """Rows with one element set."""
    p: Any = call.params
    (indices,), (output,) = call.inputs, call.outputs
    if not _fits(call, (), "clip"):
        return None
    n = prod(indices.shape)
    arguments = [
        written.read((Kind.INPUT, 0), indices.dtype), written.write((Kind.OUTPUT, 0), output.dtype), written.scalar(0),
        written.scalar(1), written.number(n), written.number(p.depth),
    ]  # fmt: skip
    types = [written.value_type(output.dtype), names.STORAGE[output.dtype], names.STORAGE[indices.dtype]]
    steps = (
        [written.launch(call.op.name, "indexing::one_hot", types, arguments, n * p.depth)]
        if n * p.depth
        else []
    )
    return make_plan(call.op.name, call.context, call.inputs, call.outputs, steps, n_scalars=2)
