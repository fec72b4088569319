# SPDX-License-Identifier: Apache-2.0
"""Reductions over axes, on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any, cast

from mx_core import dtypes
from mx_core import expression as X
from mx_core.expression import Expression, Opcode
from mx_operators.reduce.base import Axes, kept_shape, reduced_axes
from mx_operators_cuda import elementwise
from mx_operators_cuda.codegen.reduction import Runs, fold_type, runs_of, write_reduction
from mx_operators_cuda.launch import Kind, Launch, Parameter, make_plan
from mx_operators_cuda.moves import tiles

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

_FLOATS = frozenset(dtypes.code(n) for n in ("float16", "bfloat16", "float32", "float64"))
_UINT64, _COMPLEX = dtypes.code("uint64"), dtypes.code("complex64")
#: blocks, or threads, that fill a large GPU
_BLOCKS, _THREADS = 1024, 1 << 17
#: elements a block, or a thread, has at least
_BLOCK_ELEMENTS, _THREAD_ELEMENTS = 4096, 64


@dataclass(frozen=True)
class Reduction:
    """What is folded, how, and what becomes of the result: `finish(folded, elements)`."""

    fold: Opcode
    load: Callable[[Any], Any] = lambda x: x
    finish: Callable[[Any, Any], Any] = lambda folded, count: folded

    @property
    def expressions(self) -> tuple[Expression, Expression]:
        """`load` and `finish` as data."""
        return _traced(self)


@cache
def _traced(r: Reduction) -> tuple[Expression, Expression]:
    return X.trace(r.load, 1), X.trace(r.finish, 2)


SUM = Reduction(Opcode.ADD)
REDUCTIONS = {
    "sum": SUM,
    "mean": Reduction(Opcode.ADD, finish=lambda folded, count: folded / count),
    "prod": Reduction(Opcode.MUL),
    "max": Reduction(Opcode.MAXIMUM),
    "min": Reduction(Opcode.MINIMUM),
    "nansum": Reduction(Opcode.ADD, lambda x: X.where(X.isnan(x), 0.0, x)),
    "nanprod": Reduction(Opcode.MUL, lambda x: X.where(X.isnan(x), 1.0, x)),
}
NORMS = {
    1: Reduction(Opcode.ADD, abs),
    2: Reduction(Opcode.ADD, X.square, lambda folded, count: X.sqrt(folded)),
}


def _axes(call: KernelCall, rank: int) -> tuple[int, ...]:
    return reduced_axes(cast(Axes, call.params), rank)


def reduce(call: KernelCall) -> Any:
    """sum, mean, prod, max, min, nansum, nanprod."""
    (spec,), name = call.inputs, call.op.name
    axes = _axes(call, len(spec.shape))
    empty = prod(spec.shape[axis] for axis in axes) == 0
    if spec.dtype not in _FLOATS and (name == "mean" or (empty and name in ("max", "min"))):
        return None
    if spec.dtype == _UINT64 and name in ("max", "min"):
        return None  # int64 does not hold the numbers
    return _plan(call, REDUCTIONS[name], axes)


def norm(call: KernelCall) -> Any:
    """L1 or L2 norm."""
    p: Any = call.params
    if call.inputs[0].dtype not in _FLOATS:
        return None
    return _plan(call, NORMS[p.ord], reduced_axes(p, len(call.inputs[0].shape)))


def unbroadcast(call: KernelCall) -> Any:
    """A gradient summed back to the shape that was broadcast."""
    shape, like = call.inputs[0].shape, call.outputs[0].shape
    lead = len(shape) - len(like)
    repeated = [lead + i for i, size in enumerate(like) if size == 1 and shape[lead + i] != 1]
    return _plan(call, SUM, [*range(lead), *repeated])


def _plan(call: KernelCall, reduction: Reduction, axes: Sequence[int]) -> Any:
    (source, *_), (target,) = call.inputs, call.outputs
    if source.layout or target.layout or source.dtype >= _COMPLEX or source.dtype != target.dtype:
        return None
    runs = runs_of(source.shape, axes)
    made, scratch = launches(call.op.name, reduction, runs, source.dtype)
    return make_plan(call.op.name, call.context, call.inputs, call.outputs, made, scratch=scratch)


def launches(name: str, reduction: Reduction, runs: Runs, code: int) -> tuple[list[Launch], list[int]]:
    """The kernels of a reduction of elements of a type, and the bytes of scratch between them."""
    outputs, extent, compute = runs.outputs, runs.extent, fold_type(code)
    if outputs == 0:
        return [], []
    segments, count = _segments(runs), extent
    symbol, (load, finish) = elementwise.symbol(name), reduction.expressions
    into: tuple[Parameter, ...] = ((Kind.OUTPUT, 0), (Kind.REQUEST, 0))
    if segments == 1:
        text = write_reduction(symbol, runs, code, code, compute, load, reduction.fold, finish)
        return [_launch(text, runs, (Kind.INPUT, 0), into, 1, count)], []
    plain, keep = _traced(Reduction(reduction.fold, SUM.load, SUM.finish))
    first = write_reduction(f"{symbol}_parts", runs, code, compute, compute, load, reduction.fold, keep)
    # parts of one output lie side by side where blocks fold, else those of one segment do
    rest = Runs((outputs, segments), (segments, 1), (False, True)) if runs.by_rows else Runs(
        (segments, outputs), (outputs, 1), (True, False))  # fmt: skip
    second = write_reduction(symbol, rest, compute, code, compute, plain, reduction.fold, finish)
    parts: tuple[Parameter, ...] = ((Kind.SCRATCH, 0), (Kind.UINT32, 1))  # 1: write
    return [
        _launch(first, runs, (Kind.INPUT, 0), parts, segments, count),
        _launch(second, rest, (Kind.SCRATCH, 0), into, 1, count),
    ], [outputs * segments * dtypes.itemsize(compute)]


def _segments(runs: Runs) -> int:
    """Into how many parts an output's elements are cut, so that the GPU is filled."""
    least = _BLOCK_ELEMENTS if runs.by_rows else _THREAD_ELEMENTS
    wanted = (_BLOCKS if runs.by_rows else _THREADS) // runs.outputs
    return max(1, min(wanted, runs.extent // least))


def _launch(
    source: Any, runs: Runs, read: Parameter, into: tuple[Parameter, ...], segments: int, count: int
) -> Launch:
    index = Kind.UINT64 if runs.wide else Kind.UINT32
    segment = -(-runs.extent // segments)
    numbers = (runs.outputs, runs.extent, segments, segment, count, *runs.arguments())
    tasks = runs.outputs * segments
    threads = tasks * source.block if runs.by_rows else tasks
    return Launch(source, threads, (read, *into, *((index, n) for n in numbers)))


# ---- gradients: expressions in which the reduced axes are broadcast ----


def backward_sum(call: KernelCall) -> Any:
    """The gradient repeated over the reduced axes."""
    return _spread(call, elementwise.identity())


def backward_mean(call: KernelCall) -> Any:
    """The gradient over the number of elements, repeated."""
    shape = call.outputs[0].shape
    kept = kept_shape(shape, _axes(call, len(shape)))
    count = max(prod(shape) // max(prod(kept), 1), 1)
    return _spread(call, X.trace(lambda g: g / float(count), 1))


def _spread(call: KernelCall, expression: Expression) -> Any:
    shape, gradient = call.outputs[0].shape, call.inputs[0]
    kept = kept_shape(shape, _axes(call, len(shape)))
    return elementwise.plan(call, expression, [type(gradient)(kept, gradient.dtype)], call.outputs)


def _folded(call: KernelCall, shape: Sequence[int], axes: Sequence[int]) -> Any:
    """The first input, looked at in a shape, summed over axes."""
    source, target = call.inputs[0], call.outputs[0]
    if source.layout or target.layout or source.dtype >= _COMPLEX or source.dtype != target.dtype:
        return None
    steps, scratch = launches(call.op.name, SUM, runs_of(shape, axes), source.dtype)
    return make_plan(call.op.name, call.context, call.inputs, call.outputs, steps, scratch=scratch)


def backward_tile(call: KernelCall) -> Any:
    """The gradient of all copies added up."""
    p: Any = call.params
    split = tiles(call.outputs[0].shape, p.reps)
    return _folded(call, split, range(0, len(split), 2))


def backward_repeat(call: KernelCall) -> Any:
    """The gradient of neighbouring copies added up."""
    p: Any = call.params
    shape = call.outputs[0].shape
    axis = len(shape) - 1 if p.axis is None else p.axis % len(shape)
    return _folded(call, (*shape[: axis + 1], p.repeats, *shape[axis + 1 :]), [axis + 1])


def backward_upsample(call: KernelCall) -> Any:
    """The gradient of the copies of a pixel added up; of one image."""
    p: Any = call.params
    if p.sample_type != "nearest" or p.num_args != 1:
        return None
    n, c, h, w = call.outputs[0].shape
    return _folded(call, (n, c, h, p.scale, w, p.scale), [3, 5])


# ---- gradients that need data and result ----


def _share(name: str) -> Callable[[Any, Any, Any], Any]:
    """What an element gets of the gradient g of its result y."""
    shares: dict[str, Callable[[Any, Any, Any], Any]] = {
        "_backward_extremum": lambda g, x, y: X.where(x == y, g, 0.0),
        "_backward_prod": lambda g, x, y: g * (y / x),
        "_backward_nansum": lambda g, x, y: X.where(X.isnan(x), 0.0, g),
        "_backward_nanprod": lambda g, x, y: X.where(X.isnan(x), 0.0, g * (y / x)),
    }
    return shares[name]


def _from_output(call: KernelCall, share: Callable[[Any, Any, Any], Any]) -> Any:
    """A function of the gradient, the element and the result, the reduced axes repeated."""
    if any(spec.dtype not in _FLOATS for spec in (*call.inputs, *call.outputs)):
        return None
    g, x = call.inputs[:2]
    y = call.inputs[2] if len(call.inputs) > 2 else g
    kept = kept_shape(x.shape, _axes(call, len(x.shape)))
    inputs = [type(g)(kept, g.dtype), x, type(g)(kept, y.dtype)][: len(call.inputs)]
    function = share if len(inputs) == 3 else (lambda g, x: share(g, x, g))
    return elementwise.plan(call, X.trace(function, len(inputs)), inputs, call.outputs)


def backward_from_output(call: KernelCall) -> Any:
    """Gradients of max, min, prod, nansum, nanprod."""
    return _from_output(call, _share(call.op.name))


def backward_norm(call: KernelCall) -> Any:
    """The sign, or the element over the norm; 0 where the norm is 0."""
    p: Any = call.params
    if p.ord == 1:
        return _from_output(call, lambda g, x, y: g * X.sign(x))
    return _from_output(call, lambda g, x, y: g * (x / X.where(y == 0, 1.0, y)))


def backward_moments(call: KernelCall) -> Any:
    """mean_grad, var_grad, data, mean -> data_grad."""
    if any(spec.dtype not in _FLOATS for spec in (*call.inputs, *call.outputs)):
        return None
    x = call.inputs[2]
    kept = kept_shape(x.shape, _axes(call, len(x.shape)))
    n = float(max(prod(x.shape) // max(prod(kept), 1), 1))
    inputs = [spec if i == 2 else type(spec)(kept, spec.dtype) for i, spec in enumerate(call.inputs)]
    made = X.trace(lambda g, v, x, mean: (g + 2.0 * (x - mean) * v) / n, 4)
    return elementwise.plan(call, made, inputs, call.outputs)


def sums_of_squares(call: KernelCall) -> Any:
    """The sum of squares of each input, in float32."""
    if any(spec.dtype != 0 or spec.layout for spec in (*call.inputs, *call.outputs)):
        return None
    squares = Reduction(Opcode.ADD, X.square)
    steps: list[Launch] = []
    scratch: list[int] = []
    for i, spec in enumerate(call.inputs):
        made, parts = launches(call.op.name, squares, runs_of((prod(spec.shape),), (0,)), spec.dtype)
        places: dict[Parameter, Parameter] = {
            (Kind.INPUT, 0): (Kind.INPUT, i), (Kind.OUTPUT, 0): (Kind.OUTPUT, 0, 4 * i),
            (Kind.SCRATCH, 0): (Kind.SCRATCH, len(scratch)),
        }  # fmt: skip
        steps += [launch.taking(places) for launch in made]
        scratch += parts
    return make_plan(call.op.name, call.context, call.inputs, call.outputs, steps, scratch=scratch)
