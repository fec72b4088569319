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
from mx_operators_cpu import _vector
from mx_operators_cpu.vector.signature import plain, tensors

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


def _ftrl(p: Any, w: Any, g: Any, z: Any, n: Any) -> Sequence[Any]:
    g = _scaled(p, g)
    total = n + X.square(g)
    z = z + g - (X.sqrt(total) - X.sqrt(n)) * w / p.lr
    inside = (X.sign(z) * p.lamda1 - z) / ((p.beta + X.sqrt(total)) / p.lr + p.wd)
    return X.where(abs(z) > p.lamda1, inside, 0.0), z, total


def _ftml(p: Any, w: Any, g: Any, d: Any, v: Any, z: Any) -> Sequence[Any]:
    g = _decayed(p, w, g, "clip_grad")
    v = p.beta2 * v + (1 - p.beta2) * X.square(g)
    root = X.sqrt(v / (1 - X.power(p.beta2, p.t))) + p.epsilon
    new = (1 - X.power(p.beta1, p.t)) / p.lr * root
    z = p.beta1 * z + (1 - p.beta1) * g - (new - p.beta1 * d) * w
    return -z / new, new, v, z


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
    "ftml_update": _ftml,
}


@cache
def _traced(name: str, scalars: tuple[str, ...], n_inputs: int) -> Expression:
    def step(*values: Any) -> Sequence[Any]:
        p = SimpleNamespace(**dict(zip(scalars, values[n_inputs:], strict=True)))
        return STEPS[name](p, *values[:n_inputs])

    return X.trace(step, n_inputs, len(scalars))


def update(call: KernelCall) -> Any:
    """A plan of one optimizer step; the states are the inputs behind weight and gradient."""
    if not plain(*call.inputs, *call.outputs) or len({spec.shape for spec in call.inputs}) > 1:
        return None
    scalars = tuple(info.name for info in call.params.fields() if info.runtime)
    expression = _traced(call.op.name, scalars, len(call.inputs))
    states = call.op.mutated_inputs(call.params)
    try:
        return _vector.expression_plan(
            expression.serialized,
            tensors(call.inputs),
            tensors(call.outputs),
            mutated=states,
            wide_scalars=True,
        )
    except NoKernelError:
        return None
