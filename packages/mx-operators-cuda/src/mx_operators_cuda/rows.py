# SPDX-License-Identifier: Apache-2.0
"""Operators over rows on a GPU: softmax and its variants, positions of extrema, one element per row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, prod
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_core import expression as X
from mx_core.expression import Opcode, compute_dtype
from mx_operators_cuda import folds
from mx_operators_cuda.codegen.rows import At
from mx_operators_cuda.folds import Fold, Rows
from mx_operators_cuda.launch import make_plan

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

_FLOATS = frozenset(dtypes.code(n) for n in ("float16", "bfloat16", "float32", "float64"))
#: types whose positions and labels are exact in float64
_LABELS = _FLOATS | frozenset(dtypes.code(n) for n in ("uint8", "int8", "int32", "int64"))


def _plan(
    call: KernelCall,
    axis: int,
    inputs: Sequence[tuple[int, bool]],
    passes: Sequence[Fold],
    result: Callable[..., Any],
    *,
    shape: tuple[int, ...],
    per_row: bool = False,
    n_scalars: int = 0,
) -> Any:
    """A plan over the rows of `shape` along `axis`.

    `inputs` are (input of the call, whether it has one element per row); folds and result are functions of
    them, the scalars, the position and the folds so far.
    """
    specs = [call.inputs[i] for i, _ in inputs]
    (output,) = call.outputs
    if any(s.layout for s in (*specs, output)) or not {s.dtype for s in (*specs, output)} <= _LABELS:
        return None
    if compute_dtype(tuple(s.dtype for s in specs)) not in (0, 1):
        return None
    before = len(inputs) + n_scalars + 1

    def plain(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *values: function(*values[:before], *values[before + 1 :])

    made, scratch = folds.launches(
        call.op.name, Rows.along(shape, axis),
        [folds.read(i, call.inputs[i], At.ROW if once else At.ELEMENT) for i, once in inputs],
        [folds.write(0, output, At.ROW if per_row else At.ELEMENT)],
        [[(opcode, plain(function))] for opcode, function in passes],
        None if per_row else plain(result), plain(result) if per_row else None, scalars=n_scalars,
    )  # fmt: skip
    return make_plan(
        call.op.name, call.context, call.inputs, call.outputs, made if shape[axis] else [], n_scalars=n_scalars,
        scratch=scratch,
    )  # fmt: skip


# ---- softmax ----


def _same_type(call: KernelCall) -> bool:
    """One floating-point type for all, and no lengths per row."""
    types = {spec.dtype for spec in (*call.inputs, *call.outputs)}
    return len(types) == 1 and types <= _FLOATS and not getattr(call.params, "use_length", False)


def _softmax(call: KernelCall, axis: int, shape: tuple[int, ...], scale: float, logarithm: bool) -> Any:
    return _softmax_rows(call, axis, shape, scale, logarithm) if _same_type(call) else None


def _softmax_rows(call: KernelCall, axis: int, shape: tuple[int, ...], scale: float, logarithm: bool) -> Any:
    largest: Fold = (Opcode.MAXIMUM, lambda x, k: x * scale)
    total: Fold = (Opcode.ADD, lambda x, k, m: X.exp(x * scale - m))

    def result(x: Any, k: Any, m: Any, s: Any) -> Any:
        return x * scale - m - X.log(s) if logarithm else X.exp(x * scale - m) / s

    return _plan(call, axis, [(0, False)], [largest, total], result, shape=shape)


def _softmax_backward(
    call: KernelCall, axis: int, shape: tuple[int, ...], scale: float, logarithm: bool
) -> Any:
    if not _same_type(call):
        return None
    total: Fold = (Opcode.ADD, (lambda g, y, k: g) if logarithm else (lambda g, y, k: g * y))

    def result(g: Any, y: Any, k: Any, s: Any) -> Any:
        return (g - X.exp(y) * s) * scale if logarithm else y * (g - s) * scale

    return _plan(call, axis, [(0, False), (1, False)], [total], result, shape=shape)


#: operator -> sign of the data, whether the logarithm is wanted
_KINDS = {"softmax": (1.0, False), "softmin": (-1.0, False), "log_softmax": (1.0, True)}


def softmax(call: KernelCall) -> Any:
    """softmax, softmin, log_softmax and their gradients along an axis."""
    p: Any = call.params
    shape = call.outputs[0].shape
    if not shape:
        return None
    name = call.op.name.removeprefix("_backward_")
    sign, logarithm = _KINDS[name]
    make = _softmax if name == call.op.name else _softmax_backward
    return make(call, p.axis % len(shape), shape, sign / (p.temperature or 1.0), logarithm)


def softmax_activation(call: KernelCall) -> Any:
    """softmax of everything but the first axis, or of axis 1, and its gradient."""
    p: Any = call.params
    shape = call.outputs[0].shape
    view = shape if p.mode == "channel" else (shape[0], prod(shape[1:]))
    make = _softmax if call.op.name == "SoftmaxActivation" else _softmax_backward
    return make(call, 1, view, 1.0, False)


def softmax_output(call: KernelCall) -> Any:
    """softmax over the classes; the label is for the gradient alone."""
    data, output = call.inputs[0], call.outputs[0]
    if data.dtype != output.dtype or data.dtype not in _FLOATS:
        return None
    return _softmax_rows(call, 1, _classes(output.shape, call.params), 1.0, False)


def softmax_output_backward(call: KernelCall) -> Any:
    """Probabilities minus labels, scaled; not divided by the number of valid labels, which takes another pass."""
    p: Any = call.params
    label, output = call.inputs[:2]
    shape = _classes(output.shape, p)
    if output.dtype != call.outputs[0].dtype or output.dtype not in _FLOATS or shape[1] >= 1 << 24:
        return None
    rest = [(2, False)] if p.out_grad else []
    if label.shape == output.shape:  # a distribution

        def distance(t: Any, y: Any, *others: Any) -> Any:
            return (y - t) * others[-3]

        return _plan(call, 1, [(0, False), (1, False), *rest], [], distance, shape=shape, n_scalars=2)
    if p.normalization == "valid":
        return None
    smooth = 0.0 if p.multi_output else p.smooth_alpha
    divisor = max((shape[0] if p.normalization == "batch" else 1) * (shape[2] if p.multi_output else 1), 1)

    def result(t: Any, y: Any, *others: Any) -> Any:
        *head_grads, scale, ignored, k = others
        index = X.trunc(t)
        inside = X.minimum(X.maximum(index, 0.0), float(shape[1] - 1))
        hit = X.where(index == inside, 1 - smooth, 0.0)
        grad = (y - X.where(inside == k, hit, smooth / max(shape[1] - 1, 1))) * (scale * (1 / divisor))
        for g in head_grads:
            grad = grad * g
        return X.where(index == X.trunc(ignored), 0.0, grad) if p.use_ignore else grad

    return _plan(call, 1, [(0, True), (1, False), *rest], [], result, shape=shape, n_scalars=2)


def _classes(shape: tuple[int, ...], p: Any) -> tuple[int, int, int]:
    """(rows, classes, positions)."""
    if p.multi_output:
        return shape[0], shape[1], prod(shape[2:])
    if p.preserve_shape:
        return prod(shape[:-1]), shape[-1], 1
    return shape[0], prod(shape[1:]), 1


# ---- positions ----


def arg(call: KernelCall) -> Any:
    """argmax, argmin, argmax_channel: the first position of the extremum; NaN is one."""
    p: Any = call.params
    shape = call.inputs[0].shape
    axis = 1 if call.op.name == "argmax_channel" else p.axis
    if axis is None:
        shape, axis = (prod(shape),), 0
    opcode = Opcode.MINIMUM if call.op.name == "argmin" else Opcode.MAXIMUM
    extremum: Fold = (opcode, lambda x, k: x)
    first: Fold = (Opcode.MINIMUM, lambda x, k, m: X.where(X.logical_or(x == m, X.isnan(x)), k, inf))
    if prod(shape) == 0 or shape[axis % len(shape)] >= 1 << 24:
        return None  # float32 does not hold the positions
    return _plan(call, axis % len(shape), [(0, False)], [extremum, first], lambda x, k, m, f: f,
                 shape=shape, per_row=True)  # fmt: skip


def _place(index: Any, extent: int, mode: str) -> Any:
    """The position an index means."""
    whole = X.trunc(index)
    if mode == "wrap":
        return whole - X.floor(whole / float(extent)) * float(extent)
    return X.minimum(X.maximum(whole, 0.0), float(extent - 1))


def backward_pick(call: KernelCall) -> Any:
    """The gradient where it was picked, zeros elsewhere."""
    p: Any = call.params
    shape = call.outputs[0].shape
    if p.axis is None or prod(shape) == 0 or shape[p.axis] >= 1 << 24:
        return None
    axis = p.axis % len(shape)

    def result(g: Any, index: Any, k: Any) -> Any:
        return X.where(_place(index, shape[axis], p.mode) == k, g, 0.0)

    return _plan(call, axis, [(0, True), (2, True)], [], result, shape=shape)
