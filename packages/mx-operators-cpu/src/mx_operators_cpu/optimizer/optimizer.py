# SPDX-License-Identifier: Apache-2.0
"""Optimizer updates: one pass over weight, gradient and states, states written in place.

The steps are those the operators declare, written as expressions; scalars are run-time values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

from mx_core import expression as X
from mx_core.errors import NoKernelError
from mx_core.expression import Expression
from mx_core.kernels import KernelCall
from mx_operators_cpu.composite import Composite, Scalar, runtime
from mx_operators_cpu.library import native
from mx_operators_cpu.optimizer import updates
from mx_operators_cpu.signature import plain, tensors

Step = Callable[..., Sequence[Any]]


def _clipped(x: Any, limit: Any) -> Any:
    return X.where(limit >= 0, X.minimum(X.maximum(x, -limit), limit), x)


def _scaled(p: Any, g: Any) -> Any:
    return _clipped(g * p.rescale_grad, p.clip_gradient)


def _decayed(p: Any, w: Any, g: Any, limit: str = "clip_gradient") -> Any:
    return _clipped(g * p.rescale_grad + p.wd * w, getattr(p, limit))


def _sgd(p: Any, w: Any, g: Any) -> Sequence[Any]:
    return (w - p.lr * (_scaled(p, g) + p.wd * w),)


def _sgd_momentum(p: Any, w: Any, g: Any, mom: Any) -> Sequence[Any]:
    mom = p.momentum * mom - p.lr * (_scaled(p, g) + p.wd * w)
    return w + mom, mom


def _nag(p: Any, w: Any, g: Any, mom: Any) -> Sequence[Any]:
    total = p.lr * (_scaled(p, g) + p.wd * w)
    mom = p.momentum * mom - total
    return w + p.momentum * mom - total, mom


def _nag_decayed_late(p: Any, w: Any, g: Any, mom: Any) -> Sequence[Any]:
    new, mom = _nag(p, w, g, mom)
    return new, mom - p.lr * p.wd * (new - w)


def _sign_sgd(p: Any, w: Any, g: Any) -> Sequence[Any]:
    return ((1 - p.lr * p.wd) * w - p.lr * X.sign(g),)


def _signum(p: Any, w: Any, g: Any, mom: Any) -> Sequence[Any]:
    mom = p.momentum * mom - (1 - p.momentum) * (_scaled(p, g) + p.wd * w)
    return (1 - p.lr * p.wd_lh) * w + p.lr * X.sign(mom), mom


def _adam(p: Any, w: Any, g: Any, mean: Any, var: Any) -> Sequence[Any]:
    g = _decayed(p, w, g)
    mean = p.beta1 * mean + (1 - p.beta1) * g
    var = p.beta2 * var + (1 - p.beta2) * X.square(g)
    return w - p.lr * mean / (X.sqrt(var) + p.epsilon), mean, var


def _rmsprop(p: Any, w: Any, g: Any, n: Any) -> Sequence[Any]:
    g = _decayed(p, w, g)
    n = (1 - p.gamma1) * X.square(g) + p.gamma1 * n
    return _clipped(w - p.lr * g / X.sqrt(n + p.epsilon), p.clip_weights), n


def _rmsprop_alex(p: Any, w: Any, g: Any, n: Any, mean: Any, delta: Any) -> Sequence[Any]:
    g = _decayed(p, w, g)
    n = (1 - p.gamma1) * X.square(g) + p.gamma1 * n
    mean = (1 - p.gamma1) * g + p.gamma1 * mean
    delta = p.gamma2 * delta - p.lr * g / X.sqrt(n - X.square(mean) + p.epsilon)
    return _clipped(w + delta, p.clip_weights), n, mean, delta


def _adagrad(p: Any, w: Any, g: Any, history: Any) -> Sequence[Any]:
    g = _scaled(p, g)
    history = history + X.square(g)
    return w - p.lr * g / X.sqrt(history + p.epsilon), history


def _ftrl(p: Any, w: Any, g: Any, z: Any, n: Any) -> Sequence[Any]:
    g = _scaled(p, g)
    total = n + X.square(g)
    z = z + g - (X.sqrt(total) - X.sqrt(n)) * w / p.lr
    inside = (X.sign(z) * p.lamda1 - z) / ((p.beta + X.sqrt(total)) / p.lr + p.wd)
    return X.where(abs(z) <= p.lamda1, 0.0, inside), z, total


def _ftml(p: Any, w: Any, g: Any, d: Any, v: Any, z: Any) -> Sequence[Any]:
    g = _decayed(p, w, g, "clip_grad")
    v = p.beta2 * v + (1 - p.beta2) * X.square(g)
    root = X.sqrt(v / (1 - X.power(p.beta2, p.t))) + p.epsilon
    new = (1 - X.power(p.beta1, p.t)) / p.lr * root
    z = p.beta1 * z + (1 - p.beta1) * g - (new - p.beta1 * d) * w
    return -z / new, new, v, z


def _adamw(p: Any, w: Any, g: Any, mean: Any, var: Any, scale: Any) -> Sequence[Any]:
    usable = X.logical_and(X.isfinite(scale), scale != 0)
    g = _clipped(g * scale, p.clip_gradient)
    new_mean = p.beta1 * mean + (1 - p.beta1) * g
    new_var = p.beta2 * var + (1 - p.beta2) * X.square(g)
    new = w - p.eta * (p.lr * new_mean / (X.sqrt(new_var) + p.epsilon) + p.wd * w)
    return tuple(X.where(usable, a, b) for a, b in zip((new, new_mean, new_var), (w, mean, var), strict=True))


def _mixed_adamw(p: Any, w: Any, g: Any, mean: Any, var: Any, master: Any, scale: Any) -> Sequence[Any]:
    new, mean, var = _adamw(p, master, g, mean, var, scale)
    usable = X.logical_and(X.isfinite(scale), scale != 0)
    return X.where(usable, new, w), mean, var, new


def _lamb_direction(p: Any, w: Any, g: Any, mean: Any, var: Any) -> Sequence[Any]:
    g = _scaled(p, g)
    mean = p.beta1 * mean + (1 - p.beta1) * g
    var = p.beta2 * var + (1 - p.beta2) * X.square(g)
    first, second = mean, var
    if p.bias_correction:
        first, second = mean / (1 - X.power(p.beta1, p.t)), var / (1 - X.power(p.beta2, p.t))
    return first / (X.sqrt(second) + p.epsilon) + p.wd * w, mean, var


def _mixed_lamb_direction(p: Any, w: Any, g: Any, mean: Any, var: Any, master: Any) -> Sequence[Any]:
    return _lamb_direction(p, master, g, mean, var)


def _lamb_step(p: Any, w: Any, g: Any, r1: Any, r2: Any) -> Sequence[Any]:
    r1 = X.where(p.lower_bound >= 0, X.maximum(r1, p.lower_bound), r1)
    r1 = X.where(p.upper_bound >= 0, X.minimum(r1, p.upper_bound), r1)
    ratio = X.where(X.logical_or(r1 == 0, r2 == 0), 1.0, r1 / r2)
    return (w - p.lr * ratio * g,)


def _mixed_lamb_step(p: Any, w: Any, g: Any, r1: Any, r2: Any, master: Any) -> Sequence[Any]:
    (new,) = _lamb_step(p, master, g, r1, r2)
    return new, new


def _mixed(rule: Step) -> Step:
    """The rule on the master copy, the last state; the weight is rounded from it."""

    def step(p: Any, w: Any, g: Any, *states: Any) -> Sequence[Any]:
        new = rule(p, states[-1], g, *states[:-1])
        return (*new, new[0])

    return step


STEPS: dict[str, Step] = {
    "sgd_update": _sgd,
    "sgd_mom_update": _sgd_momentum,
    "nag_mom_update": _nag,
    "signsgd_update": _sign_sgd,
    "signum_update": _signum,
    "adam_update": _adam,
    "rmsprop_update": _rmsprop,
    "rmspropalex_update": _rmsprop_alex,
    "ftrl_update": _ftrl,
    "_sparse_adagrad_update": _adagrad,
    "ftml_update": _ftml,
    "mp_sgd_update": _mixed(_sgd),
    "mp_sgd_mom_update": _mixed(_sgd_momentum),
    "mp_nag_mom_update": _mixed(_nag_decayed_late),
    "_adamw_update": _adamw,
    "_mp_adamw_update": _mixed_adamw,
    "lamb_update_phase1": _lamb_direction,
    "mp_lamb_update_phase1": _mixed_lamb_direction,
    "lamb_update_phase2": _lamb_step,
    "mp_lamb_update_phase2": _mixed_lamb_step,
}


@cache
def _traced(
    name: str, scalars: tuple[str, ...], fixed: tuple[tuple[str, Any], ...], n_inputs: int
) -> Expression:
    def step(*values: Any) -> Sequence[Any]:
        p = SimpleNamespace(**dict(zip(scalars, values[n_inputs:], strict=True)), **dict(fixed))
        return STEPS[name](p, *values[:n_inputs])

    return X.trace(step, n_inputs, len(scalars))


def step_expression(name: str, p: Any, n_inputs: int) -> Expression:
    """An update as an expression of its arrays and run-time parameters; other parameters are fixed."""
    scalars = tuple(info.name for info in p.fields() if info.runtime)
    fixed = tuple((info.name, getattr(p, info.name)) for info in p.fields() if not info.runtime)
    return _traced(name, scalars, fixed, n_inputs)


def update(call: KernelCall) -> object:
    """A plan of one optimizer step; some inputs after weight and gradient are states."""
    shapes = {spec.shape for spec in call.inputs if spec.shape != (1,)}
    if not plain(*call.inputs, *call.outputs) or len(shapes) > 1:
        return None
    fused = updates.step(call)
    if fused is not None:
        return fused
    expression = step_expression(call.op.name, call.params, len(call.inputs))
    states = call.op.mutated_inputs(call.params)
    try:
        return native.expression_plan(
            expression.serialized,
            tensors(call.inputs),
            tensors(call.outputs),
            mutated=states,
            wide_scalars=True,
        )
    except NoKernelError:
        return None


def multi_update(call: KernelCall) -> object:
    """A step of each weight; the arrays of one follow each other, rates and decays are fixed."""
    op: Any = call.op
    p: Any = call.params
    if not plain(*call.inputs, *call.outputs):
        return None
    k = len(op.rule.arguments)
    each = [
        updates.scalars(call) | {"lr": updates.number(lr), "wd": updates.number(wd)}
        for lr, wd in zip(p.lrs, p.wds, strict=True)
    ]
    fused = updates.steps(call, op.rule.name, k, each)
    if fused is not None:
        return fused
    expression = step_expression(op.rule.name, op.rule.Param(lr=0.0), k)
    own = [info.name for info in p.fields() if info.runtime]
    made = Composite(call)
    for i, (lr, wd) in enumerate(zip(p.lrs, p.wds, strict=True)):
        given: dict[str, Scalar] = {"lr": lr, "wd": wd}
        given |= {name: runtime(own.index(name)) for name in own}
        scalars = [given[info.name] for info in op.rule.Param.fields() if info.runtime]
        inputs = range(i * k, (i + 1) * k)
        try:
            made.evaluate(expression, inputs, [made.output(i)], scalars, mutated=range(2, k))
        except NoKernelError:
            return None
    return made.plan()
