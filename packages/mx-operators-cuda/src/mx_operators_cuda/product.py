# SPDX-License-Identifier: Apache-2.0
"""Matrix products on a GPU: dot, batch_dot, FullyConnected and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_core import expression as X
from mx_core.kernels import TensorSpec
from mx_operators_cuda import elementwise, epilogues, reduce
from mx_operators_cuda.codegen.reduction import runs_of
from mx_operators_cuda.launch import Kind, Launch, Parameter, Product, Step, make_plan

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

_PRODUCT: Parameter = (Kind.SCRATCH, 0)
_FLOATS = frozenset(dtypes.code(n) for n in ("float16", "bfloat16", "float32", "float64"))


@dataclass(frozen=True)
class Matrix:
    """A tensor of a plan as a matrix, or `batch` matrices one after the other.

    Parameters
    ----------
    place : Parameter
    rows, columns : int
    transposed : bool
        In memory it is columns × rows.
    """

    place: Parameter
    rows: int
    columns: int
    transposed: bool = False

    @property
    def T(self) -> Matrix:
        """The transpose: the same memory."""
        return Matrix(self.place, self.columns, self.rows, not self.transposed)

    @property
    def row(self) -> int:
        """Elements of a row in memory."""
        return self.rows if self.transposed else self.columns


def multiply(
    c: Matrix, a: Matrix, b: Matrix, code: int, batch: int = 1, add: bool = False
) -> list[Launch | Product]:
    """The steps of C = A · B, which none is for a C without elements."""
    if c.transposed:
        return multiply(c.T, b.T, a.T, code, batch, add)
    elements = c.rows * c.columns * batch
    if elements == 0 or (a.columns == 0 and add):
        return []
    if a.columns == 0:  # cuBLAS takes no empty sums
        fill = elementwise.kernel("zeros", elementwise.ZERO, [], [TensorSpec((elements,), code)])
        assert fill is not None
        return [fill.taking({(Kind.OUTPUT, 0): c.place, (Kind.REQUEST, 0): (Kind.REQUEST, c.place[1])})]
    sizes = (c.rows, c.columns, a.columns)
    strides = (a.rows * a.columns, b.rows * b.columns, c.rows * c.columns)
    return [
        Product(a.place, b.place, c.place, code, (a.transposed, b.transposed), sizes,
                (a.row, b.row, c.row), strides, batch, add)
    ]  # fmt: skip


def _input(i: int, rows: int, columns: int, transposed: bool = False) -> Matrix:
    return Matrix((Kind.INPUT, i), rows, columns, transposed)


def _output(o: int, rows: int, columns: int, transposed: bool = False) -> Matrix:
    return Matrix((Kind.OUTPUT, o), rows, columns, transposed)


def _type(call: KernelCall) -> int | None:
    """The one floating-point type of all tensors."""
    specs = (*call.inputs, *call.outputs)
    (code, *others) = {spec.dtype for spec in specs}
    return None if others or code not in _FLOATS or any(spec.layout for spec in specs) else code


def _plan(call: KernelCall, steps: Sequence[Step], scratch: Sequence[int] = ()) -> Any:
    return make_plan(call.op.name, call.context, call.inputs, call.outputs, steps, scratch=scratch)


def _sides(p: Any, lhs: tuple[int, ...], rhs: tuple[int, ...]) -> tuple[int, int, int, bool, bool]:
    """Rows, columns and depth of `dot`, and which sides lie transposed."""
    front, back = p.transpose_a and len(lhs) > 1, p.transpose_b and len(rhs) > 1
    rows = prod(lhs[1:] if front else lhs[:-1])
    columns = prod(rhs[:-1] if back else rhs[1:])
    return rows, columns, lhs[0] if front else lhs[-1], front, back


def dot(call: KernelCall) -> Any:
    """lhs, rhs -> output."""
    if (code := _type(call)) is None:
        return None
    m, n, k, front, back = _sides(call.params, call.inputs[0].shape, call.inputs[1].shape)
    return _plan(call, multiply(_output(0, m, n), _input(0, m, k, front), _input(1, k, n, back), code))


def backward_dot(call: KernelCall) -> Any:
    """out_grad, lhs, rhs -> lhs_grad, rhs_grad."""
    if (code := _type(call)) is None:
        return None
    m, n, k, front, back = _sides(call.params, call.inputs[1].shape, call.inputs[2].shape)
    g, a, b = _input(0, m, n), _input(1, m, k, front), _input(2, k, n, back)
    steps = multiply(_output(0, m, k, front), g, b.T, code)
    return _plan(call, [*steps, *multiply(_output(1, k, n, back), a.T, g, code)])


def batch_dot(call: KernelCall) -> Any:
    """lhs, rhs -> output, over the last two axes."""
    if (code := _type(call)) is None:
        return None
    p: Any = call.params
    *lead, m, n = call.outputs[0].shape
    k = call.inputs[0].shape[-2 if p.transpose_a else -1]
    a, b = _input(0, m, k, p.transpose_a), _input(1, k, n, p.transpose_b)
    return _plan(call, multiply(_output(0, m, n), a, b, code, prod(lead)))


def fully_connected(call: KernelCall) -> Any:
    """data, weight[, bias] -> output."""
    if (code := _type(call)) is None:
        return None
    hidden, depth = call.inputs[1].shape
    rows = prod(call.outputs[0].shape) // max(hidden, 1)
    y, x, weight = _output(0, rows, hidden), _input(0, rows, depth), _input(1, hidden, depth)
    biased = len(call.inputs) > 2
    steps: list[Launch | Product] = []
    if biased and rows * hidden:
        given, made = TensorSpec((hidden,), code), TensorSpec((rows, hidden), code)
        spread = elementwise.kernel("bias", elementwise.identity(), [given], [made])
        assert spread is not None
        steps.append(spread.taking({(Kind.INPUT, 0): (Kind.INPUT, 2)}))
    steps += multiply(y, x, weight.T, code, add=biased)
    bias = (Kind.INPUT, 2) if biased else None
    return _plan(call, *epilogues.finished(call, multiply(y, x, weight.T, code), bias, False, steps))


def fused_fully_connected(call: KernelCall) -> Any:
    """data, weight[, bias][, residual] -> activation(data · weightᵀ + bias + residual)."""
    p: Any = call.params
    code = _type(call)
    if code is None or p.packed:
        return None
    hidden, depth = call.inputs[1].shape
    rows = prod(call.outputs[0].shape) // max(hidden, 1)
    x, weight = _input(0, rows, depth), _input(1, hidden, depth)
    product = multiply(Matrix(_PRODUCT, rows, hidden), x, weight.T, code)
    if not rows * hidden or not depth:
        return None  # the layer alone fills its result
    more = list(range(2, len(call.inputs)))
    shape = TensorSpec((rows, hidden), code)
    specs = [shape, *(TensorSpec((hidden,), code) if i == 2 and not p.no_bias else shape for i in more)]
    op: Any = call.op
    e = X.trace(lambda y, *others: op.activated(p, sum(others, start=y)), len(specs))
    last = elementwise.kernel(call.op.name, e, specs, [shape])
    assert last is not None
    read: list[Parameter] = [_PRODUCT, *((Kind.INPUT, i) for i in more)]
    places: dict[Parameter, Parameter] = {(Kind.INPUT, i): place for i, place in enumerate(read)}
    steps = [*product, last.taking(places)]
    scratch = [rows * hidden * dtypes.itemsize(code)]
    if p.residual or p.activation not in (None, "relu"):
        return _plan(call, steps, scratch)
    bias = None if p.no_bias else (Kind.INPUT, 2)
    whole = multiply(_output(0, rows, hidden), x, weight.T, code)
    return _plan(call, *epilogues.finished(call, whole, bias, p.activation == "relu", steps, scratch))


def fully_connected_backward(call: KernelCall) -> Any:
    """out_grad, data, weight -> data_grad, weight_grad[, bias_grad]."""
    if (code := _type(call)) is None:
        return None
    hidden, depth = call.inputs[2].shape
    rows = prod(call.inputs[0].shape) // max(hidden, 1)
    g, x, weight = _input(0, rows, hidden), _input(1, rows, depth), _input(2, hidden, depth)
    steps = multiply(_output(0, rows, depth), g, weight, code)
    steps += multiply(_output(1, hidden, depth), g.T, x, code)
    scratch: list[int] = []
    if len(call.outputs) > 2:
        sums, scratch = reduce.launches("bias_grad", reduce.SUM, runs_of((rows, hidden), (0,)), code)
        third: dict[Parameter, Parameter] = {
            (Kind.OUTPUT, 0): (Kind.OUTPUT, 2),
            (Kind.REQUEST, 0): (Kind.REQUEST, 2),
        }
        steps += [launch.taking(third) for launch in sums]
    return _plan(call, steps, scratch)
