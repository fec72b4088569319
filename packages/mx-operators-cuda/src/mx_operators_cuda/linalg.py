# SPDX-License-Identifier: Apache-2.0
"""Scaled products of matrices over the last two axes, and the logarithms of diagonals, on a GPU."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_core import expression as X
from mx_core.expression import Opcode
from mx_core.kernels import TensorSpec
from mx_operators_cuda import elementwise, folds, places, written
from mx_operators_cuda.codegen import names
from mx_operators_cuda.codegen.rows import At
from mx_operators_cuda.folds import Rows
from mx_operators_cuda.launch import Kind, Launch, Parameter, Product, make_plan
from mx_operators_cuda.product import Matrix, multiply

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

_PRODUCT: Parameter = (Kind.SCRATCH, 0)


def _alike(call: KernelCall) -> bool:
    specs = (*call.inputs, *call.outputs)
    return folds.floating(specs) and len({s.dtype for s in specs}) == 1


def _scaled(call: KernelCall, steps: list[Launch | Product], scratch: list[int]) -> Any:
    """alpha times what the steps leave in the first piece of scratch, and beta times the third input."""
    op: Any = call.op
    output = call.outputs[0]
    scalars = [info.name for info in op.Param.fields() if info.runtime]
    added = "beta" in scalars
    if prod(output.shape) == 0:
        return make_plan(op.name, call.context, call.inputs, call.outputs, [], n_scalars=len(scalars))
    e = X.trace(lambda s, c, a, b: a * s + b * c, 2, 2) if added else X.trace(lambda s, a: a * s, 1, 1)
    flat = TensorSpec((prod(output.shape),), output.dtype)
    made = elementwise.kernel(op.name, e, [flat] * (1 + added), [flat])
    assert made is not None
    where: dict[Parameter, Parameter] = {(Kind.INPUT, 0): _PRODUCT, (Kind.INPUT, 1): (Kind.INPUT, 2)}
    where |= {
        (Kind.SCALAR, i): (Kind.SCALAR, scalars.index(n))
        for i, n in enumerate(("alpha", "beta")[: 1 + added])
    }
    return make_plan(
        op.name, call.context, call.inputs, call.outputs, [*steps, made.taking(where)],
        n_scalars=len(scalars), scratch=[prod(output.shape) * dtypes.itemsize(output.dtype), *scratch],
    )  # fmt: skip


def _multiplied(call: KernelCall, a: Matrix, b: Matrix, batch: int) -> list[Launch | Product]:
    """A · B in the first piece of scratch; zeros where nothing is summed."""
    code = call.outputs[0].dtype
    c = Matrix(_PRODUCT, a.rows, b.columns)
    if a.columns:
        return multiply(c, a, b, code, batch)
    n = c.rows * c.columns * batch
    if not n:
        return []
    zeros = elementwise.kernel(call.op.name, elementwise.ZERO, [], [TensorSpec((n,), code)])
    assert zeros is not None
    return [zeros.taking({(Kind.OUTPUT, 0): _PRODUCT, (Kind.REQUEST, 0): (Kind.UINT32, 1)})]


def _matrix(place: Parameter, shape: tuple[int, ...], transposed: bool) -> Matrix:
    rows, columns = shape[-2:]
    return Matrix(place, columns, rows, True) if transposed else Matrix(place, rows, columns)


def gemm(call: KernelCall) -> Any:
    """alpha · op(A) · op(B), plus beta · C; with rows along the axis before the last one."""
    p: Any = call.params
    a, b = call.inputs[:2]
    if not _alike(call) or p.axis % len(a.shape) != len(a.shape) - 2:
        return None
    left = _matrix((Kind.INPUT, 0), a.shape, p.transpose_a)
    right = _matrix((Kind.INPUT, 1), b.shape, p.transpose_b)
    return _scaled(call, _multiplied(call, left, right, prod(a.shape[:-2])), [])


def syrk(call: KernelCall) -> Any:
    """alpha · A · Aᵀ, or alpha · Aᵀ · A."""
    p: Any = call.params
    if not _alike(call):
        return None
    a = _matrix((Kind.INPUT, 0), call.inputs[0].shape, p.transpose)
    return _scaled(call, _multiplied(call, a, a.T, prod(call.inputs[0].shape[:-2])), [])


def trmm(call: KernelCall) -> Any:
    """alpha · op(A) · B, or alpha · B · op(A), of a triangle of A."""
    p: Any = call.params
    a, b = call.inputs
    if not _alike(call):
        return None
    n, batch, code = a.shape[-1], prod(a.shape[:-2]), a.dtype
    steps: list[Launch | Product] = []
    if prod(a.shape):
        arguments = [
            written.read((Kind.INPUT, 0), code), written.write((Kind.SCRATCH, 1), code), written.number(batch),
            places.triangle(n, 0, p.lower),
        ]  # fmt: skip
        types = [written.value_type(code), names.STORAGE[code]]
        steps.append(written.launch(call.op.name, "places::keep_triangle", types, arguments, prod(a.shape)))
    triangle = _matrix((Kind.SCRATCH, 1), a.shape, p.transpose)
    other = _matrix((Kind.INPUT, 1), b.shape, False)
    pair = (other, triangle) if p.rightside else (triangle, other)
    steps += _multiplied(call, *pair, batch)
    return _scaled(call, steps, [max(prod(a.shape), 1) * dtypes.itemsize(code)])


def _diagonals(shape: tuple[int, ...]) -> Rows:
    """A row per matrix: its diagonal."""
    n, batch = shape[-1], prod(shape[:-2])
    return Rows(batch, n, 1, n * n, 0, max(n, 1), 0, n + 1, prod(shape))


def sum_of_logarithms(call: KernelCall) -> Any:
    """The sum of the logarithms of a diagonal."""
    if not _alike(call):
        return None
    data = call.inputs[0]
    steps, scratch = folds.launches(
        call.op.name, _diagonals(data.shape), [folds.read(0, data)], [folds.write(0, call.outputs[0], At.ROW)],
        [[(Opcode.ADD, lambda x, k, n: X.log(x))]], None, lambda x, k, n, total: total,
    )  # fmt: skip
    return make_plan(call.op.name, call.context, call.inputs, call.outputs, steps, scratch=scratch)


def backward_sum_of_logarithms(call: KernelCall) -> Any:
    """The gradient over the diagonal, zeros elsewhere."""
    if not _alike(call):
        return None
    head, data = call.inputs
    zeros = elementwise.kernel(call.op.name, elementwise.ZERO, [], call.outputs)
    assert zeros is not None
    steps, scratch = folds.launches(
        f"{call.op.name}_diagonal", _diagonals(data.shape),
        [folds.read(0, head, At.ROW), folds.read(1, data)], [folds.write(0, call.outputs[0])], (),
        lambda g, x, k, n: g / x,
    )  # fmt: skip
    return make_plan(
        call.op.name, call.context, call.inputs, call.outputs, [*([zeros] if zeros.threads else []), *steps],
        scratch=scratch,
    )  # fmt: skip
