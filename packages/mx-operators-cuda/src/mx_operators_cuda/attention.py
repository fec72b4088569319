# SPDX-License-Identifier: Apache-2.0
"""Products of multi-head attention on interleaved projections, on a GPU.

Projections are (L, N, H·P·D). Read with a stride, they are matrices of L rows of D elements, one for each
sequence, head and part, so cuBLAS takes them where they lie.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod, sqrt
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_core import expression as X
from mx_core.kernels import TensorSpec
from mx_operators_cuda import elementwise, folds
from mx_operators_cuda.launch import Kind, Launch, Parameter, Product, make_plan

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall


@dataclass(frozen=True)
class Matrices:
    """Equal matrices of a tensor of a plan.

    Parameters
    ----------
    place : Parameter
    rows, columns : int
    row, matrix : int
        Elements from one row, and from one matrix, to the next.
    """

    place: Parameter
    rows: int
    columns: int
    row: int
    matrix: int


def _part(place: Parameter, spec: TensorSpec, heads: int, parts: int, part: int) -> Matrices:
    """One part of a projection of all sequences and heads."""
    length, batch, size = spec.shape
    width = size // (heads * parts)
    return Matrices(
        (place[0], place[1], part * width * dtypes.itemsize(spec.dtype)),
        length,
        width,
        batch * size,
        parts * width,
    )


def _square(place: Parameter, spec: TensorSpec) -> Matrices:
    """Scores: (N·H, Q, L)."""
    _, rows, columns = spec.shape
    return Matrices(place, rows, columns, columns, rows * columns)


def _multiply(
    call: KernelCall, c: Matrices, a: Matrices, b: Matrices, turned: tuple[bool, bool], add: bool = False
) -> list[Launch | Product]:
    """C = op(A) · op(B) for every sequence and head; with `add` C += it."""
    depth = a.rows if turned[0] else a.columns
    batch = call.inputs[0].shape[1] * call.params.heads  # type: ignore[attr-defined]
    if 0 in (c.rows, c.columns, depth, batch):
        return []
    return [
        Product(a.place, b.place, c.place, call.inputs[0].dtype, turned, (c.rows, c.columns, depth),
                (a.row, b.row, c.row), (a.matrix, b.matrix, c.matrix), batch, add)
    ]  # fmt: skip


def _supported(call: KernelCall) -> bool:
    specs = (*call.inputs, *call.outputs)
    return (
        folds.floating(specs) and len({s.dtype for s in specs}) == 1 and all(0 not in s.shape for s in specs)
    )


def _scaled(call: KernelCall, i: int, scratch: int, width: int) -> Launch:
    """An input over the root of the width of a head, in scratch memory."""
    spec = call.inputs[i]
    flat = TensorSpec((prod(spec.shape),), spec.dtype)
    factor = 1 / sqrt(width)
    made = elementwise.kernel("attention_scale", X.trace(lambda x: x * factor, 1), [flat], [flat])
    assert made is not None
    return made.taking({
        (Kind.INPUT, 0): (Kind.INPUT, i), (Kind.OUTPUT, 0): (Kind.SCRATCH, scratch),
        (Kind.REQUEST, 0): (Kind.UINT32, 1),
    })  # fmt: skip


def _zeros(call: KernelCall, output: int) -> Launch:
    """Zeros in an output, to which products are then added."""
    spec = call.outputs[output]
    made = elementwise.kernel("zeros", elementwise.ZERO, [], [TensorSpec((prod(spec.shape),), spec.dtype)])
    assert made is not None
    return made.taking({
        (Kind.OUTPUT, 0): (Kind.OUTPUT, output), (Kind.REQUEST, 0): (Kind.REQUEST, output),
    })  # fmt: skip


def _plan(call: KernelCall, steps: list[Launch | Product], scratch: list[int]) -> Any:
    return make_plan(call.op.name, call.context, call.inputs, call.outputs, steps, scratch=scratch)


def _bytes(spec: TensorSpec) -> int:
    return prod(spec.shape) * dtypes.itemsize(spec.dtype)


def scores(call: KernelCall) -> Any:
    """queries_keys_values, or queries and keys_values -> scores."""
    if not _supported(call):
        return None
    h = call.params.heads  # type: ignore[attr-defined]
    first, last = call.inputs[0], call.inputs[-1]
    own, parts = len(call.inputs) == 1, 3 if len(call.inputs) == 1 else 2
    q = _part((Kind.SCRATCH, 0), first, h, 3 if own else 1, 0)
    k = _part((Kind.INPUT, len(call.inputs) - 1), last, h, parts, 1 if own else 0)
    product = _multiply(call, _square((Kind.OUTPUT, 0), call.outputs[0]), q, k, (False, True))
    return _plan(call, [_scaled(call, 0, 0, q.columns), *product], [_bytes(first)])


def backward_scores(call: KernelCall) -> Any:
    """out_grad, inputs -> their gradients; values have none."""
    if not _supported(call):
        return None
    h = call.params.heads  # type: ignore[attr-defined]
    first, last = call.inputs[1], call.inputs[-1]
    own, parts, key = (
        len(call.inputs) == 2,
        3 if len(call.inputs) == 2 else 2,
        1 if len(call.inputs) == 2 else 0,
    )
    width = first.shape[2] // (h * (3 if own else 1))
    scaled_q, scaled_k = (Kind.SCRATCH, 0), (Kind.SCRATCH, 0 if own else 1)
    q, k = _part(scaled_q, first, h, 3 if own else 1, 0), _part(scaled_k, last, h, parts, key)
    dq = _part((Kind.OUTPUT, 0), first, h, 3 if own else 1, 0)
    dk = _part((Kind.OUTPUT, len(call.outputs) - 1), last, h, parts, key)
    grad = _square((Kind.INPUT, 0), call.inputs[0])
    steps: list[Launch | Product] = [
        _scaled(call, 1, 0, width),
        *(() if own else (_scaled(call, 2, 1, width),)),
    ]
    steps += [_zeros(call, o) for o in range(len(call.outputs))]
    batched = _batched(call, 1)
    steps += _multiply(batched, dq, grad, k, (False, False), add=True)
    steps += _multiply(batched, dk, grad, q, (True, False), add=True)
    return _plan(call, steps, [_bytes(spec) for spec in call.inputs[1:]])


def _batched(call: KernelCall, i: int) -> KernelCall:
    """The call with a projection as first input, which says how many sequences there are."""
    return type(call)(call.op, call.params, call.inputs[i:], call.outputs, call.context, call.is_train)


def values(call: KernelCall) -> Any:
    """projections, attention -> the values it weights."""
    if not _supported(call):
        return None
    h, parts = call.params.heads, _value_parts(call, 0)  # type: ignore[attr-defined]
    v = _part((Kind.INPUT, 0), call.inputs[0], h, parts, parts - 1)
    y = _part((Kind.OUTPUT, 0), call.outputs[0], h, 1, 0)
    product = _multiply(call, y, _square((Kind.INPUT, 1), call.inputs[1]), v, (False, False))
    return _plan(call, product, [])


def _value_parts(call: KernelCall, i: int) -> int:
    """Parts of the projections; the result has one."""
    result = call.outputs[0] if i == 0 else call.inputs[0]
    return call.inputs[i].shape[2] // result.shape[2]


def backward_values(call: KernelCall) -> Any:
    """out_grad, projections, attention -> gradients of projections and attention."""
    if not _supported(call):
        return None
    h, parts = call.params.heads, _value_parts(call, 1)  # type: ignore[attr-defined]
    dy = _part((Kind.INPUT, 0), call.inputs[0], h, 1, 0)
    v = _part((Kind.INPUT, 1), call.inputs[1], h, parts, parts - 1)
    dv = _part((Kind.OUTPUT, 0), call.outputs[0], h, parts, parts - 1)
    steps: list[Launch | Product] = [_zeros(call, 0)]
    steps += _multiply(call, dv, _square((Kind.INPUT, 2), call.inputs[2]), dy, (True, False), add=True)
    steps += _multiply(call, _square((Kind.OUTPUT, 1), call.outputs[1]), dy, v, (False, True))
    return _plan(call, steps, [])


def divide_by_root(call: KernelCall) -> Any:
    """data over the root of the extent of its last axis."""
    factor = 1 / sqrt(max(call.inputs[0].shape[-1], 1))
    if not folds.floating((*call.inputs, *call.outputs)):
        return None
    return elementwise.plan(call, X.trace(lambda x: x * factor, 1), call.inputs, call.outputs)
