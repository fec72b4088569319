# SPDX-License-Identifier: Apache-2.0
"""Updates of several weights at once, and what goes with them: sums of squares, rates, checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

from mx_core import dtypes
from mx_core import expression as X
from mx_core.errors import NoKernelError
from mx_core.expression import Expression
from mx_core.kernels import KernelCall
from mx_operators_cpu.composite import Composite, Scalar, runtime, traced
from mx_operators_cpu.indexing.view import View, move
from mx_operators_cpu.library import native
from mx_operators_cpu.optimizer import updates
from mx_operators_cpu.optimizer.optimizer import STEPS, step_expression
from mx_operators_cpu.signature import accumulator, floating, plain, tensors

_FLOAT = dtypes.code("float32")


def _native(make: Callable[[KernelCall], Any]) -> Callable[[KernelCall], Any]:
    """Declines what is no floating-point number, or mixes types that no loop computes in."""

    def made(call: KernelCall) -> object:
        if not floating(call):
            return None
        try:
            return make(call)
        except NoKernelError:
            return None

    return made


def _elements(made: Composite, source: int, n: int, dtype: int) -> list[int]:
    """The elements of an array, each as an array of its own."""
    parts = [made.temporary((1,), dtype) for _ in range(n)]
    one = View.of((1,))
    moves = [move(View((1,), (1,), i), one, 0, i) for i in range(n)]
    made.run(native.move_plan([((n,), dtype)], [((1,), dtype)] * n, moves), [source], parts)
    return parts


# ---- rates and decays in arrays ----


@cache
def _preloaded_step(rule: str, n_inputs: int, scalars: tuple[str, ...]) -> Expression:
    """The rule, with rate and decay as the last two arrays."""

    def step(*values: Any) -> Sequence[Any]:
        own, (lr, wd), given = values[:n_inputs], values[n_inputs : n_inputs + 2], values[n_inputs + 2 :]
        return STEPS[rule](SimpleNamespace(lr=lr, wd=wd, **dict(zip(scalars, given, strict=True))), *own)

    return X.trace(step, n_inputs + 2, len(scalars))


@_native
def preloaded_update(call: KernelCall) -> object:
    """A step of each weight; rates and decays are the last two arrays."""
    op: Any = call.op
    p: Any = call.params
    k, n = len(op.own), p.num_weights
    own = updates.scalars(call)
    each = [own | {"lr": updates.element(n * k, i), "wd": updates.element(n * k + 1, i)} for i in range(n)]
    fused = updates.steps(call, op.rule.name, k, each)
    if fused is not None:
        return fused
    scalars = tuple(info.name for info in p.fields() if info.runtime)
    expression = _preloaded_step(op.rule.name, k, scalars)
    made = Composite(call)
    rates, decays = (_elements(made, n * k + i, n, call.inputs[n * k + i].dtype) for i in range(2))
    given = [runtime(i) for i in range(len(scalars))]
    for i in range(n):
        inputs = [*range(i * k, (i + 1) * k), rates[i], decays[i]]
        made.evaluate(expression, inputs, [made.output(i)], given, mutated=range(2, k))
    return made.plan()


# ---- AdamW and LAMB ----

#: parameters with an element per weight, and their names in the rule
_PER_WEIGHT = {"lrs": "lr", "wds": "wd", "etas": "eta"}


@_native
def multi_adamw(call: KernelCall) -> object:
    """_adamw_update of each weight; the scale is the last array."""
    op: Any = call.op
    p: Any = call.params
    k, n = len(op.own), p.num_weights
    shared = updates.scalars(call) | {"rescale_grad": updates.element(n * k)}
    each = [
        shared | {name: updates.number(getattr(p, many)[i]) for many, name in _PER_WEIGHT.items()}
        for i in range(n)
    ]
    fused = updates.steps(call, op.rule.name, k, each)
    if fused is not None:
        return fused
    expression = step_expression(op.rule.name, op.rule.Param(lr=0.0, eta=0.0), k + 1)
    own = [info.name for info in p.fields() if info.runtime]
    made = Composite(call)
    for i in range(n):
        given: dict[str, Scalar] = {name: runtime(own.index(name)) for name in own}
        given |= {name: getattr(p, many)[i] for many, name in _PER_WEIGHT.items()}
        scalars = [given[info.name] for info in op.rule.Param.fields() if info.runtime]
        inputs = [*range(i * k, (i + 1) * k), n * k]
        made.evaluate(expression, inputs, [made.output(i)], scalars, mutated=range(2, k))
    return made.plan()


@cache
def _lamb_expressions(mixed: bool, bias_correction: bool) -> tuple[Expression, Expression]:
    """A direction with new moments, and a step with new master weight."""
    names = ("beta1", "beta2", "epsilon", "t", "wd", "rescale_grad", "clip_gradient")

    def direction(*values: Any) -> Sequence[Any]:
        p = SimpleNamespace(bias_correction=bias_correction, **dict(zip(names, values[4:], strict=True)))
        return STEPS["lamb_update_phase1"](p, *values[:4])

    def step(w: Any, g: Any, r1: Any, r2: Any, lr: Any, lower: Any, upper: Any) -> Sequence[Any]:
        p = SimpleNamespace(lr=lr, lower_bound=lower, upper_bound=upper)
        (new,) = STEPS["lamb_update_phase2"](p, w, g, r1, r2)
        return (new, new) if mixed else (new,)

    return X.trace(direction, 4, len(names)), X.trace(step, 4, 3)


@_native
def multi_lamb(call: KernelCall) -> object:
    """Per weight a direction, its norm and the weight's, a step."""
    op: Any = call.op
    p: Any = call.params
    k = len(op.own)
    mixed = k == 5
    direction, step = _lamb_expressions(mixed, p.bias_correction)
    own = [info.name for info in p.fields() if info.runtime]
    at = {name: runtime(own.index(name)) for name in own}
    made = Composite(call)
    for i in range(p.num_tensors):
        weight, gradient, mean, var = range(i * k, i * k + 4)
        master = weight + 4 if mixed else weight
        shape, kind = call.inputs[weight].shape, accumulator(call.inputs[master].dtype)
        way = made.temporary(shape, kind)
        norms = [made.temporary((1,), kind) for _ in range(2)]
        scalars = [at["beta1"], at["beta2"], at["epsilon"], float(p.step_count[i]), p.wds[i],
                   at["rescale_grad"], at["clip_gradient"]]  # fmt: skip
        made.evaluate(direction, [master, gradient, mean, var], [way], scalars, mutated=(2, 3))
        for source, norm in zip((weight, way), norms, strict=True):
            made.reduce(source, norm, "sum_square", shape, [True] * len(shape), root=True)
        scalars = [p.learning_rates[i], at["lower_bound"], at["upper_bound"]]
        mutated = (0,) if mixed else ()
        made.evaluate(step, [master, way, *norms], [made.output(i)], scalars, mutated=mutated)
    return made.plan()


# ---- around updates ----


@_native
def sums_of_squares(call: KernelCall) -> object:
    """One number per array."""
    made = Composite(call)
    sums = [made.temporary((1,), _FLOAT) for _ in call.inputs]
    for i, spec in enumerate(call.inputs):
        made.reduce(i, sums[i], "sum_square", spec.shape, [True] * len(spec.shape))
    one = View.of((1,))
    moves = [move(one, View((1,), (1,), i), i, 0) for i in range(len(sums))]
    joined = native.move_plan([((1,), _FLOAT)] * len(sums), tensors(call.outputs), moves)
    made.run(joined, sums, [made.output(0)])
    return made.plan()


def _layer_rate(lr: Any, weight: Any, grad: Any, wd: Any, eta: Any, eps: Any, scale: Any) -> Any:
    w, g = X.sqrt(weight), X.sqrt(grad)
    found = lr * eta * w / (scale * g + wd * w + eps)
    return X.where(X.logical_and(weight > 0, grad > 0), found, lr)


@_native
def layer_rates(call: KernelCall) -> object:
    """multi_lars."""
    made = Composite(call)
    made.evaluate(traced(_layer_rate, 4, 3), range(4), [made.output(0)], [runtime(i) for i in range(3)])
    return made.plan()


def all_finite(call: KernelCall) -> object:
    """Whether every number is finite."""
    if not plain(*call.inputs):
        return None
    return native.all_finite_plan(tensors(call.inputs), tensors(call.outputs))


def reset(call: KernelCall) -> object:
    """Arrays set to zero."""
    return native.reset_plan(tensors(call.inputs)) if plain(*call.inputs) else None


# ---- a history per row ----


def _squared(g: Any, scale: Any, limit: Any) -> Any:
    g = g * scale
    return X.square(X.where(limit >= 0, X.minimum(X.maximum(g, -limit), limit), g))


def _longer(history: Any, mean: Any) -> Sequence[Any]:
    return history + mean, history + mean


def _row_step(w: Any, g: Any, history: Any, lr: Any, scale: Any, limit: Any, eps: Any) -> Any:
    g = g * scale
    g = X.where(limit >= 0, X.minimum(X.maximum(g, -limit), limit), g)
    return w - lr * g / X.sqrt(history + eps)


@_native
def group_adagrad(call: KernelCall) -> object:
    """Mean squares of rows are added to the history, which scales the step."""
    weight, gradient, state = range(3)
    (rows, columns), kind = call.inputs[0].shape, accumulator(call.inputs[0].dtype)
    made = Composite(call)
    squares = made.temporary((rows, columns), kind)
    means, history = (made.temporary((rows, 1), kind) for _ in range(2))
    lr, scale, limit, eps = (runtime(i) for i in range(4))
    made.evaluate(traced(_squared, 1, 2), [gradient], [squares], [scale, limit])
    made.reduce(squares, means, "sum", (rows, columns), [False, True], mean=columns > 0)
    made.evaluate(traced(_longer, 2), [state, means], [history], mutated=[0])
    made.evaluate(
        traced(_row_step, 3, 4), [weight, gradient, history], [made.output(0)], [lr, scale, limit, eps]
    )
    return made.plan()
