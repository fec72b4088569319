# SPDX-License-Identifier: Apache-2.0
"""Normalization layers and their gradients on a GPU. Variances are sums of squared distances from the mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

from mx_core import expression as X
from mx_core.expression import Opcode
from mx_operators.reduce.base import reduced_axes
from mx_operators_cuda import folds
from mx_operators_cuda.codegen.rows import At
from mx_operators_cuda.folds import Fold, Operand, Rows, read, write
from mx_operators_cuda.launch import Kind, Launch, make_plan

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall


#: launches, and the bytes of each piece of their scratch memory; None for what the kernels do not have
Steps: TypeAlias = "tuple[list[Launch], list[int]] | None"


def _planned(call: KernelCall, steps: Steps) -> Any:
    """A plan of nothing but them."""
    return None if steps is None else _plan(call, *steps)


def _plan(call: KernelCall, steps: Sequence[Launch], scratch: Sequence[int]) -> Any:
    return make_plan(call.op.name, call.context, call.inputs, call.outputs, steps, scratch=scratch)


def _statistics(after: int) -> list[list[Fold]]:
    """Sum, and sum of squared distances from the mean, of the first of `after` values before the position."""

    def squares(*values: Any) -> Any:
        n, total = values[after + 1 :]
        return X.square(values[0] - total / n)

    return [[(Opcode.ADD, lambda *values: values[0])], [(Opcode.ADD, squares)]]


# ---- BatchNorm ----


def _here(call: KernelCall) -> bool:
    """Everything is floating-point, and the statistics are those of one device."""
    return folds.floating((*call.inputs, *call.outputs)) and getattr(call.params, "ndev", 1) == 1


def batch_norm(call: KernelCall) -> Any:
    """data, gamma, beta, moving_mean, moving_var -> output, mean, var; with the activation, at least 0."""
    return _planned(call, batch_norm_steps(call))


def batch_norm_steps(call: KernelCall) -> Steps:
    """Those of BatchNorm."""
    p: Any = call.params
    data, gamma = call.inputs[:2]
    if not _here(call):
        return None
    limited = X.relu if "ReLU" in call.op.name else lambda y: y
    where = Rows.of(data.shape, p.axis % len(data.shape))
    inverted = call.op.shown_inverted(p)  # type: ignore[attr-defined]
    inputs = [read(0, data), *(read(i, gamma, At.ROW) for i in range(1, 5))]
    outputs = [write(0, call.outputs[0]), *(write(o, call.outputs[o], At.ROW) for o in (1, 2))]

    def shifted(x: Any, gamma: Any, beta: Any, mean: Any, var: Any) -> Any:
        scale = 1 / X.sqrt(var + p.eps)
        return limited((x - mean) * (scale if p.fix_gamma else gamma * scale) + beta)

    def shown(var: Any) -> Any:
        return 1 / X.sqrt(var + p.eps) if inverted else var

    if not call.is_train or p.use_global_stats:

        def result(x: Any, gamma: Any, beta: Any, mean: Any, var: Any, k: Any, n: Any) -> Any:
            return shifted(x, gamma, beta, mean, var)

        def summary(x: Any, gamma: Any, beta: Any, mean: Any, var: Any, k: Any, n: Any) -> Any:
            return mean, shown(var)

        return folds.launches(call.op.name, where, inputs, outputs, (), result, summary)

    def trained(
        x: Any, gamma: Any, beta: Any, m: Any, v: Any, k: Any, n: Any, total: Any, squares: Any
    ) -> Any:
        return shifted(x, gamma, beta, total / n, squares / n)

    def states(
        x: Any, gamma: Any, beta: Any, m: Any, v: Any, k: Any, n: Any, total: Any, squares: Any
    ) -> Any:
        mean, var = total / n, squares / n
        kept, new = p.momentum, 1 - p.momentum
        return mean, shown(var), m * kept + mean * new, v * kept + var * new

    moving = [Operand((Kind.INPUT, i), gamma.dtype, At.ROW) for i in (3, 4)]
    return folds.launches(call.op.name, where, inputs, [*outputs, *moving], _statistics(5), trained, states)


def backward_batch_norm(call: KernelCall) -> Any:
    """out_grad, data, gamma, mean, var, moving_mean, moving_var[, output] -> data_grad, gamma_grad, beta_grad."""
    return _planned(call, backward_batch_norm_steps(call))


def backward_batch_norm_steps(call: KernelCall) -> Steps:
    """Those of its gradient."""
    p: Any = call.params
    head, data, gamma = call.inputs[:3]
    if not _here(call):
        return None
    where = Rows.of(data.shape, p.axis % len(data.shape))
    forward: Any = call.op.backward_of
    inverted = forward.shown_inverted(p)
    inputs = [read(0, head), read(1, data), *(read(i, gamma, At.ROW) for i in (2, 3, 4))]
    passed: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda function: function
    if len(call.inputs) > 7:  # what the activation has cut off has no gradient
        inputs.append(read(7, call.inputs[7]))
        passed = _where_positive
    outputs = [write(0, call.outputs[0]), *(write(o, call.outputs[o], At.ROW) for o in (1, 2))]
    through = call.is_train and not p.use_global_stats

    def inverse(var: Any) -> Any:
        return var if inverted else 1 / X.sqrt(var + p.eps)

    def product(g: Any, x: Any, gamma: Any, mean: Any, var: Any, k: Any, n: Any) -> Any:
        return g * (x - mean) * inverse(var)

    passes: list[list[Fold]] = [[(Opcode.ADD, passed(lambda g, *_: g)), (Opcode.ADD, passed(product))]]

    def result(
        g: Any, x: Any, gamma: Any, mean: Any, var: Any, k: Any, n: Any, total: Any, products: Any
    ) -> Any:
        scale = inverse(var) if p.fix_gamma else gamma * inverse(var)
        if not through:
            return g * scale
        return scale * (g - (total + (x - mean) * inverse(var) * products) / n)

    def summary(*values: Any) -> Any:
        total, products = values[-2:]
        return products * 0.0 if p.fix_gamma else products, total

    return folds.launches(call.op.name, where, inputs, outputs, passes, passed(result), summary)


def _where_positive(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the gradient and four more, with the gradient of where the sixth value is above 0."""
    return lambda g, a, b, c, d, y, *rest: function(X.where(y > 0.0, g, 0.0), a, b, c, d, *rest)


# ---- LayerNorm, GroupNorm, InstanceNorm ----


def _normal(eps: float, after: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Result and summary of a normalization of the first of `after` inputs by its own statistics."""

    def moments(values: Sequence[Any]) -> tuple[Any, Any]:
        n, total, squares = values[after + 1 :]
        return total / n, X.sqrt(squares / n + eps)

    def result(x: Any, gamma: Any, beta: Any, *rest: Any) -> Any:
        mean, std = moments((x, gamma, beta, *rest))
        return (x - mean) / std * gamma + beta

    return result, lambda *values: moments(values)


def layer_norm(call: KernelCall) -> Any:
    """data, gamma, beta -> output, mean, std along an axis."""
    return _planned(call, layer_norm_steps(call))


def layer_norm_steps(call: KernelCall) -> Steps:
    """Those of LayerNorm."""
    p: Any = call.params
    data = call.inputs[0]
    where = Rows.along(data.shape, p.axis % len(data.shape))
    return _normalized(call, where, At.POSITION, p.eps)


def grouped_norm(call: KernelCall) -> Any:
    """data, gamma, beta -> output, mean, std of groups of channels."""
    p: Any = call.params
    return _planned(call, _normalized(call, _groups(call, call.inputs[0].shape), At.CYCLE, p.eps))


def _groups(call: KernelCall, shape: tuple[int, ...]) -> Rows:
    op: Any = call.op.backward_of or call.op
    groups = op.groups(call.params, shape[1])
    rows = shape[0] * groups
    return Rows.blocks(rows, prod(shape) // rows if rows else 0, groups)


def _normalized(call: KernelCall, where: Rows, at: At, eps: float) -> Steps:
    if not folds.floating((*call.inputs, *call.outputs)):
        return None
    return normalizing(call, where, at, eps)


def normalizing(call: KernelCall, where: Rows, at: At, eps: float) -> tuple[list[Launch], list[int]]:
    """The launches of data, gamma, beta -> output, mean, std; gamma and beta lie at `at`."""
    inputs = [read(0, call.inputs[0]), read(1, call.inputs[1], at), read(2, call.inputs[2], at)]
    outputs = [write(0, call.outputs[0]), *(write(o, call.outputs[o], At.ROW) for o in (1, 2))]
    result, summary = _normal(eps, 3)
    return folds.launches(call.op.name, where, inputs, outputs, _statistics(3), result, summary)


def backward_layer_norm(call: KernelCall) -> Any:
    """out_grad, data, gamma, mean, std -> data_grad, gamma_grad, beta_grad."""
    return _planned(call, backward_layer_norm_steps(call))


def backward_layer_norm_steps(call: KernelCall) -> Steps:
    """Those of its gradient."""
    p: Any = call.params
    shape = call.inputs[1].shape
    axis = p.axis % len(shape)
    return _backward_normalized(call, Rows.along(shape, axis), At.POSITION, Rows.of(shape, axis), At.POSITION)


def backward_grouped_norm(call: KernelCall) -> Any:
    """out_grad, data, gamma, mean, std -> data_grad, gamma_grad, beta_grad."""
    shape = call.inputs[1].shape
    where = _groups(call, shape)
    groups = where.cycle
    across = Rows.of((shape[0], groups, where.extent), 1)
    return _planned(call, _backward_normalized(call, where, At.CYCLE, across, At.OUTER))


def _backward_normalized(call: KernelCall, where: Rows, at: At, across: Rows, statistics: At) -> Steps:
    """The gradient of data over the rows that were normalized, those of gamma and beta over rows across them."""
    if not folds.floating((*call.inputs, *call.outputs)):
        return None
    head, data, gamma, mean, std = call.inputs

    def product(g: Any, x: Any, gamma: Any, mean: Any, std: Any, k: Any, n: Any) -> Any:
        return g * gamma * (x - mean) / std

    def result(
        g: Any, x: Any, gamma: Any, mean: Any, std: Any, k: Any, n: Any, total: Any, products: Any
    ) -> Any:
        return (g * gamma - total / n - (x - mean) / std * (products / n)) / std

    sums: list[list[Fold]] = [[(Opcode.ADD, lambda g, x, gamma, *_: g * gamma), (Opcode.ADD, product)]]
    inputs = [read(0, head), read(1, data), read(2, gamma, at), read(3, mean, At.ROW), read(4, std, At.ROW)]
    steps, scratch = folds.launches(call.op.name, where, inputs, [write(0, call.outputs[0])], sums, result)
    passes: list[list[Fold]] = [[
        (Opcode.ADD, lambda g, x, mean, std, *_: g * (x - mean) / std), (Opcode.ADD, lambda g, *_: g),
    ]]  # fmt: skip
    inputs = [read(0, head), read(1, data), read(3, mean, statistics), read(4, std, statistics)]
    outputs = [write(o, call.outputs[o], At.ROW) for o in (1, 2)]
    more, parts = folds.launches(
        f"{call.op.name}_parameters", across, inputs, outputs, passes, None,
        lambda *values: tuple(values[-2:]), scratch=len(scratch),
    )  # fmt: skip
    return [*steps, *more], [*scratch, *parts]


# ---- L2Normalization, moments ----


def _l2_rows(mode: str, shape: tuple[int, ...]) -> Rows:
    if mode == "channel":
        return Rows.along(shape, 1)
    rows = shape[0] if mode == "instance" else prod(shape[:2])
    return Rows.blocks(rows, prod(shape) // rows if rows else 0, 1)


def l2_normalization(call: KernelCall) -> Any:
    """data -> output, norm over an example, over channels, or over positions."""
    p: Any = call.params
    data = call.inputs[0]
    if not folds.floating((*call.inputs, *call.outputs)):
        return None
    steps = folds.launches(
        call.op.name, _l2_rows(p.mode, data.shape), [read(0, data)],
        [write(0, call.outputs[0]), write(1, call.outputs[1], At.ROW)], [[(Opcode.ADD, lambda x, k, n: x * x)]],
        lambda x, k, n, squares: x / X.sqrt(squares + p.eps), lambda x, k, n, squares: X.sqrt(squares + p.eps),
    )  # fmt: skip
    return _plan(call, *steps)


def backward_l2_normalization(call: KernelCall) -> Any:
    """out_grad, output, norm -> data_grad."""
    p: Any = call.params
    if not folds.floating((*call.inputs, *call.outputs)):
        return None
    head, output, norm = call.inputs
    steps = folds.launches(
        call.op.name, _l2_rows(p.mode, output.shape), [read(0, head), read(1, output), read(2, norm, At.ROW)],
        [write(0, call.outputs[0])], [[(Opcode.ADD, lambda g, y, norm, k, n: g * y)]],
        lambda g, y, norm, k, n, along: (g - y * along) / norm,
    )  # fmt: skip
    return _plan(call, *steps)


def moments(call: KernelCall) -> Any:
    """data -> mean, variance over axes, if these or the others are neighbours."""
    data = call.inputs[0]
    p: Any = call.params
    axes = reduced_axes(p, len(data.shape))
    where = _rows_over(data.shape, axes)
    if not folds.floating((*call.inputs, *call.outputs)) or where is None:
        return None
    outputs = [write(o, spec, At.ROW) for o, spec in enumerate(call.outputs)]
    made = folds.launches(
        call.op.name, where, [read(0, data)], outputs, _statistics(1), None,
        lambda x, k, n, total, squares: (total / n, squares / n),
    )  # fmt: skip
    return _plan(call, *made)


def _rows_over(shape: tuple[int, ...], axes: Sequence[int]) -> Rows | None:
    """Rows of what is reduced, one per element that is kept."""
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    if 0 in shape:
        return None
    for own, rows in ((sorted(axes), Rows.along), (kept, Rows.of)):
        if own and own == list(range(own[0], own[-1] + 1)):
            merged = (prod(shape[: own[0]]), prod(shape[own[0] : own[-1] + 1]), prod(shape[own[-1] + 1 :]))
            return rows(merged, 1)
    return None
