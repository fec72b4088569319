# SPDX-License-Identifier: Apache-2.0
"""Positions as numbers, rows by index, triangles of matrices, running sums on a GPU.

No kernel can raise an error about a value it reads: indices are limited to the array.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from mx_core import dtypes
from mx_core.expression import Expression
from mx_core.kernels import TensorSpec
from mx_operators_cuda import elementwise, moves, written
from mx_operators_cuda.codegen import names
from mx_operators_cuda.codegen.move import View
from mx_operators_cuda.launch import Kind, Launch, Parameter, make_plan

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

_INT64 = dtypes.code("int64")
_AXES = 8


def _plain(specs: Sequence[TensorSpec]) -> bool:
    return not any(s.layout or s.dtype not in names.STORAGE for s in specs)


def _plan(call: KernelCall, steps: list[Launch], scratch: Sequence[int] = ()) -> Any:
    return make_plan(call.op.name, call.context, call.inputs, call.outputs, steps, scratch=scratch)


def _one(
    call: KernelCall, function: str, types: list[str], arguments: list[written.Argument], n: int
) -> list[Launch]:
    return [written.launch(call.op.name, f"places::{function}", types, arguments, n)] if n else []


def _into(call: KernelCall, o: int = 0) -> written.Argument:
    return written.write((Kind.OUTPUT, o), call.outputs[o].dtype)


def _from(call: KernelCall, i: int) -> written.Argument:
    return written.read((Kind.INPUT, i), call.inputs[i].dtype)


def _extents(values: Sequence[int]) -> written.Argument:
    padded = (len(values), *values, *(1,) * (_AXES - len(values)))
    return written.struct("places::Extents", [written.number(n) for n in padded])


def ravel(call: KernelCall) -> Any:
    """Positions per axis as one number."""
    p: Any = call.params
    x, n = call.inputs[0], prod(call.outputs[0].shape)
    if not _plain((*call.inputs, *call.outputs)) or x.dtype != call.outputs[0].dtype or len(p.shape) > _AXES:
        return None
    arguments = [_from(call, 0), _into(call), written.number(n), _extents(p.shape)]
    return _plan(call, _one(call, "ravel", [names.STORAGE[x.dtype]], arguments, n))


def unravel(call: KernelCall) -> Any:
    """One number as positions per axis."""
    p: Any = call.params
    x, n = call.inputs[0], prod(call.inputs[0].shape)
    if not _plain((*call.inputs, *call.outputs)) or x.dtype != call.outputs[0].dtype or len(p.shape) > _AXES:
        return None
    arguments = [_from(call, 0), _into(call), written.number(n), _extents(p.shape)]
    return _plan(call, _one(call, "unravel", [names.STORAGE[x.dtype]], arguments, n))


def indices(call: KernelCall) -> Any:
    """Of every element its indices, axis by axis."""
    p: Any = call.params
    shape = call.inputs[0].shape
    if any(s.layout for s in call.outputs):
        return None
    chosen = range(len(shape)) if p.axes is None else [axis % len(shape) for axis in p.axes]
    n, steps = prod(shape), list[Launch]()
    for place, axis in enumerate(chosen):
        numbers = (n, len(chosen), place, shape[axis], prod(shape[axis + 1 :]))
        steps += _one(call, "indices", [], [_into(call), *map(written.number, numbers)], n)
    return _plan(call, steps)


def _number(call: KernelCall, o: int, at: int, value: int) -> Launch:
    """A number in one element of an output in int64."""
    one = TensorSpec((1,), _INT64)
    made = elementwise.kernel(call.op.name, Expression(0, 0, (float(value),), (), (0,)), [], [one])
    assert made is not None
    return made.taking({(Kind.OUTPUT, 0): (Kind.OUTPUT, o, 8 * at), (Kind.REQUEST, 0): (Kind.REQUEST, o)})


def shape_array(call: KernelCall) -> Any:
    """The extents."""
    if any(s.layout for s in call.outputs):
        return None
    return _plan(call, [_number(call, 0, at, n) for at, n in enumerate(call.inputs[0].shape)])


def size_array(call: KernelCall) -> Any:
    """The number of elements."""
    if any(s.layout for s in call.outputs):
        return None
    return _plan(call, [_number(call, 0, 0, prod(call.inputs[0].shape))])


def reset(call: KernelCall) -> Any:
    """Zeros in every array, where it is."""
    if not _plain(call.inputs):
        return None
    steps = []
    for i, spec in enumerate(call.inputs):
        zeros = elementwise.kernel(call.op.name, elementwise.ZERO, [], [spec])
        assert zeros is not None
        if zeros.threads:
            steps.append(
                zeros.taking({(Kind.OUTPUT, 0): (Kind.INPUT, i), (Kind.REQUEST, 0): (Kind.UINT32, 1)})
            )
    return _plan(call, steps)


def cast_all(call: KernelCall) -> Any:
    """Every array in the type of its output."""
    if not _plain((*call.inputs, *call.outputs)):
        return None
    steps = []
    for i, (x, y) in enumerate(zip(call.inputs, call.outputs, strict=True)):
        made = elementwise.kernel(call.op.name, elementwise.identity(), [x], [y])
        if made is None:
            return None
        places: dict[Parameter, Parameter] = {
            (Kind.INPUT, 0): (Kind.INPUT, i), (Kind.OUTPUT, 0): (Kind.OUTPUT, i), (Kind.REQUEST, 0): (Kind.REQUEST, i),
        }  # fmt: skip
        steps += [made.taking(places)] if made.threads else []
    return _plan(call, steps)


# ---- rows by index ----


def _rows(call: KernelCall, index: int) -> tuple[list[str], int, int]:
    """Types, rows that are replaced and elements of a row."""
    code, given = call.outputs[0].dtype, call.inputs[index]
    types = [written.value_type(code), names.STORAGE[code], names.STORAGE[given.dtype]]
    return types, prod(given.shape), prod(call.outputs[0].shape[1:])


def replace(call: KernelCall) -> Any:
    """old, index, new -> old with rows replaced."""
    old = call.inputs[0]
    if not _plain((*call.inputs, *call.outputs)):
        return None
    types, count, inner = _rows(call, 1)
    numbers = [written.number(n) for n in (old.shape[0], count, inner)]
    arguments = [*(_from(call, i) for i in range(3)), _into(call), *numbers]
    return _plan(call, _one(call, "replace", types, arguments, prod(old.shape)))


def backward_replace(call: KernelCall) -> Any:
    """out_grad, old, index, new -> old_grad, new_grad."""
    head = call.inputs[0]
    if not _plain((*call.inputs, *call.outputs)):
        return None
    types, count, inner = _rows(call, 2)
    rows = head.shape[0]
    numbers = [written.number(n) for n in (rows, count, inner)]
    arguments = [_from(call, 0), _from(call, 2), _into(call), _into(call, 1), *numbers]
    return _plan(call, _one(call, "backward_replace", types, arguments, (rows + count) * inner))


def mark(call: KernelCall) -> Any:
    """1 at an index of each row."""
    index, output = call.inputs[0], call.outputs[0]
    if not _plain((*call.inputs, *call.outputs)):
        return None
    numbers = [written.number(n) for n in output.shape]
    types = [names.STORAGE[output.dtype], names.STORAGE[index.dtype]]
    return _plan(call, _one(call, "mark", types, [_from(call, 0), _into(call), *numbers], prod(output.shape)))


def put(call: KernelCall) -> Any:
    """x, values, index -> x with an element of each row replaced."""
    x = call.inputs[0]
    if not _plain((*call.inputs, *call.outputs)) or x.dtype != call.inputs[1].dtype:
        return None
    numbers = [written.number(n) for n in x.shape]
    types = [written.value_type(x.dtype), *(names.STORAGE[call.inputs[i].dtype] for i in (0, 2))]
    arguments = [*(_from(call, i) for i in range(3)), _into(call), *numbers]
    return _plan(call, _one(call, "put", types, arguments, prod(x.shape)))


# ---- matrices ----


def take_diagonal(call: KernelCall) -> Any:
    """A diagonal of every matrix."""
    p: Any = call.params
    return moves.between(call, lambda x, y: (np.diagonal(x, p.offset, -2, -1), y))


def make_diagonal(call: KernelCall) -> Any:
    """Vectors on a diagonal of zero matrices."""
    p: Any = call.params
    (whole,) = moves.arrays(call.outputs)
    return moves.put_part(call, View.of(np.diagonal(whole, p.offset, -2, -1), whole))


def triangle(n: int, offset: int, lower: bool) -> written.Argument:
    """The struct of a triangle of n × n matrices."""
    below = offset < 0 or (offset == 0 and lower)
    return written.struct("places::Triangle", [written.number(x) for x in (n, offset, int(below))])


def _triangle(call: KernelCall, function: str, n: int) -> Any:
    p: Any = call.params
    x, y = call.inputs[0], call.outputs[0]
    if not _plain((x, y)) or x.dtype != y.dtype:
        return None
    batch = prod(x.shape[:-1] if function == "make_triangle" else x.shape[:-2])
    arguments = [_from(call, 0), _into(call), written.number(batch), triangle(n, p.offset, p.lower)]
    types = [written.value_type(x.dtype), names.STORAGE[x.dtype]]
    return _plan(call, _one(call, function, types, arguments, prod(y.shape)))


def take_triangle(call: KernelCall) -> Any:
    """A triangle of every matrix as a vector."""
    return _triangle(call, "take_triangle", call.inputs[0].shape[-1])


def make_triangle(call: KernelCall) -> Any:
    """Vectors as a triangle of zero matrices."""
    return _triangle(call, "make_triangle", call.outputs[0].shape[-1])


def kronecker(call: KernelCall) -> Any:
    """Kronecker products column by column, pair by pair from the left."""
    code, columns = call.outputs[0].dtype, call.outputs[0].shape[1]
    if not _plain((*call.inputs, *call.outputs)) or len({s.dtype for s in call.inputs}) > 1:
        return None
    if len(call.inputs) == 1:
        return elementwise.plan(call, elementwise.identity(), call.inputs, call.outputs)
    types = [written.value_type(code), names.STORAGE[code]]
    steps: list[Launch] = []
    scratch: list[int] = []
    left, rows = _from(call, 0), call.inputs[0].shape[0]
    for i, other in enumerate(call.inputs[1:], 1):
        rows *= other.shape[0]
        if i + 1 == len(call.inputs):
            into = _into(call)
        else:
            into = written.write((Kind.SCRATCH, len(scratch)), code)
            scratch.append(max(rows * columns, 1) * dtypes.itemsize(code))
        numbers = [written.number(n) for n in (rows, other.shape[0], columns)]
        arguments = [left, _from(call, i), into, *numbers]
        steps += _one(call, "kronecker", types, arguments, rows * columns)
        left = written.read((Kind.SCRATCH, len(scratch) - 1), code)
    return _plan(call, steps, scratch)


def _running(call: KernelCall, shape: tuple[int, ...], backward: int) -> Any:
    p: Any = call.params
    x, y = call.inputs[0], call.outputs[0]
    if not _plain((x, y)):
        return None
    axis = 0 if p.axis is None else p.axis % len(shape)
    shape = (prod(shape),) if p.axis is None else shape
    outer, extent, inner = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    arguments = [_from(call, 0), _into(call), *(written.number(n) for n in (outer, extent, inner, backward))]
    types = [written.value_type(y.dtype), names.STORAGE[y.dtype], names.STORAGE[x.dtype]]
    return _plan(call, _one(call, "running", types, arguments, outer * inner if extent else 0))


def running_sum(call: KernelCall) -> Any:
    """Sums up to each element."""
    return _running(call, call.inputs[0].shape, 0)


def backward_running_sum(call: KernelCall) -> Any:
    """Sums from the other end."""
    return _running(call, call.outputs[0].shape, 1)
