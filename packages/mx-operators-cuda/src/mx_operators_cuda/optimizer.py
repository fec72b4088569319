# SPDX-License-Identifier: Apache-2.0
"""Optimizer updates on a GPU: weight, gradient and states in one pass, states written in place.

The kernels are made of the steps that the operators declare for their references.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import prod
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from mx_core import dtypes, operators
from mx_core import expression as X
from mx_core.expression import Expression, Opcode
from mx_operators_cuda import elementwise, folds, reduce
from mx_operators_cuda.codegen.numpy_tracing import trace_numpy
from mx_operators_cuda.codegen.reduction import runs_of
from mx_operators_cuda.codegen.rows import At
from mx_operators_cuda.launch import Kind, Launch, Parameter, make_plan
from mx_operators_cuda.written import bits_of

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

_WRITE = 1
_FLOATS = frozenset(dtypes.code(n) for n in ("float16", "bfloat16", "float32", "float64"))


@cache
def expression(name: str) -> Expression:
    """From weight, gradient, states and the run-time parameters: new weight, new states."""
    return _step(operators.get(name), len(operators.get(name).arguments))


@cache
def _step(rule: Any, n_inputs: int, loaded: tuple[str, ...] = ()) -> Expression:
    """The step of `n_inputs` tensors; the parameters `loaded` are further inputs of one element."""
    scalars, n = [name for name in _runtime(rule) if name not in loaded], n_inputs + len(loaded)

    def step(*values: Any) -> Any:
        given = dict(zip((*loaded, *scalars), values[n_inputs:], strict=True))
        return rule.step(SimpleNamespace(**given), *values[:n_inputs])

    return trace_numpy(step, n, len(scalars))


def _runtime(op: Any) -> list[str]:
    """Names of an operator's run-time parameters, in order."""
    return [info.name for info in op.Param.fields() if info.runtime]


def update(call: KernelCall) -> Any:
    """One step of an optimizer."""
    specs = (*call.inputs, *call.outputs)
    if any(s.layout for s in specs) or len({s.shape for s in specs}) > 1 or len({s.dtype for s in specs}) > 1:
        return None
    e, states = expression(call.op.name), call.inputs[2:]
    launch = elementwise.kernel(call.op.name, e, call.inputs, [*call.outputs, *states])
    if launch is None:
        return None
    places: dict[Parameter, Parameter] = {}
    for i in range(len(states)):
        places[Kind.OUTPUT, 1 + i] = (Kind.INPUT, 2 + i)
        places[Kind.REQUEST, 1 + i] = (Kind.UINT32, _WRITE)
    steps = [launch.taking(places)] if launch.threads else []
    return make_plan(call.op.name, call.context, call.inputs, call.outputs, steps, n_scalars=e.n_scalars)


def _stepped(
    call: KernelCall,
    rule: Any,
    weight: int,
    scalars: dict[str, Parameter],
    loaded: dict[str, Parameter] | None = None,
) -> Launch | None:
    """A rule applied to one of the weights of a call: with a master copy if there is one.

    The step reads weight, or the master copy, gradient and states; it writes the weight, the states, and the copy.
    `scalars` are its parameters, but for those that are `loaded` from an element of a tensor in float32.
    """
    op: Any = call.op
    own = op.own if hasattr(op, "own") else op.arguments
    first, loaded = weight * len(own), loaded or {}
    master = first + own.index("weight32") if "weight32" in own else None
    states = [first + i for i, name in enumerate(own) if i > 1 and name != "weight32"]
    read = [first if master is None else master, first + 1, *states]
    e = _step(rule, len(read), tuple(loaded))
    if master is not None:
        e = Expression(e.n_inputs, e.n_scalars, e.constants, e.instructions, (*e.outputs, e.outputs[0]))
    written = [call.outputs[weight], *(call.inputs[i] for i in states)]
    written += [] if master is None else [call.inputs[master]]
    given = [call.inputs[i] for i in read]
    specs = [*given, *written]
    if any(s.layout or s.dtype not in _FLOATS for s in specs) or len({s.shape for s in specs}) > 1:
        return None
    one = type(specs[0])((1,) * min(len(specs[0].shape), 1), 0)
    launch = elementwise.kernel(call.op.name, e, [*given, *(one for _ in loaded)], written)
    if launch is None:
        return None
    inputs: list[Parameter] = [*((Kind.INPUT, i) for i in read), *loaded.values()]
    places: dict[Parameter, Parameter] = {(Kind.INPUT, i): place for i, place in enumerate(inputs)}
    places |= {(Kind.OUTPUT, 0): (Kind.OUTPUT, weight), (Kind.REQUEST, 0): (Kind.REQUEST, weight)}
    for o, i in enumerate([*states, *([] if master is None else [master])]):
        places |= {(Kind.OUTPUT, 1 + o): (Kind.INPUT, i), (Kind.REQUEST, 1 + o): (Kind.UINT32, _WRITE)}
    names = [name for name in _runtime(rule) if name not in loaded]
    places |= {(Kind.SCALAR, i): scalars[name] for i, name in enumerate(names)}
    return launch.taking(places)


def _plan(call: KernelCall, steps: list[Launch | None]) -> Any:
    if any(step is None for step in steps):
        return None
    return make_plan(
        call.op.name, call.context, call.inputs, call.outputs, [s for s in steps if s is not None and s.threads],
        n_scalars=len(_runtime(call.op)),
    )  # fmt: skip


def mixed_update(call: KernelCall) -> Any:
    """One step on a master copy in float32, and the weight rounded from it."""
    op: Any = call.op
    scalars: dict[str, Parameter] = {name: (Kind.SCALAR, i) for i, name in enumerate(_runtime(op))}
    return _plan(call, [_stepped(call, op.rule, 0, scalars)])


def multi_update(call: KernelCall) -> Any:
    """A step of each of several weights, with rates and decays of its own."""
    op: Any = call.op
    p: Any = call.params
    rule = getattr(op.rule, "rule", op.rule)
    steps = []
    for i in range(p.num_weights):
        scalars: dict[str, Parameter] = {name: (Kind.SCALAR, j) for j, name in enumerate(_runtime(op))}
        scalars |= {"lr": bits_of(p.lrs[i]), "wd": bits_of(p.wds[i])}
        steps.append(_stepped(call, rule, i, scalars))
    return _plan(call, steps)


def preloaded_update(call: KernelCall) -> Any:
    """The same, with rates and decays that are read from the last two inputs."""
    op: Any = call.op
    p: Any = call.params
    rule, rates = getattr(op.rule, "rule", op.rule), len(call.inputs) - 2
    if any(spec.dtype != 0 or spec.layout for spec in call.inputs[rates:]):
        return None
    scalars: dict[str, Parameter] = {name: (Kind.SCALAR, j) for j, name in enumerate(_runtime(op))}
    steps = []
    for i in range(p.num_weights):
        loaded: dict[str, Parameter] = {
            "lr": (Kind.INPUT, rates, 4 * i), "wd": (Kind.INPUT, rates + 1, 4 * i),
        }  # fmt: skip
        steps.append(_stepped(call, rule, i, scalars, loaded))
    return _plan(call, steps)


# ---- updates whose references decide by values ----


def clipped(x: Any, limit: Any) -> Any:
    """Within a run-time limit; a negative one means none."""
    return X.where(limit >= 0.0, X.minimum(X.maximum(x, -limit), limit), x)


def _traced(call: KernelCall, step: Callable[..., Any], output: int, states: list[int]) -> Any:
    """A plan of `step(parameters, *inputs)`: the output, then the states, each an input that is written."""
    e = _expression(call.op, step, len(call.inputs))
    written = [call.outputs[output], *(call.inputs[i] for i in states)]
    specs = (*call.inputs, *written)
    if any(s.layout or s.dtype not in _FLOATS for s in specs) or len({s.shape for s in written}) > 1:
        return None
    launch = elementwise.kernel(call.op.name, e, call.inputs, written)
    if launch is None:
        return None
    places: dict[Parameter, Parameter] = {}
    for o, i in enumerate(states):
        places |= {(Kind.OUTPUT, 1 + o): (Kind.INPUT, i), (Kind.REQUEST, 1 + o): (Kind.UINT32, _WRITE)}
    return _plan(call, [launch.taking(places)])


def _expression(op: Any, step: Callable[..., Any], n_inputs: int) -> Expression:
    scalars = _runtime(op)

    def function(*values: Any) -> Any:
        return step(SimpleNamespace(**dict(zip(scalars, values[n_inputs:], strict=True))), *values[:n_inputs])

    return X.trace(function, n_inputs, len(scalars))


def adamw_step(mixed: bool) -> Callable[..., Any]:
    """From weight, grad, mean, var[, weight32], rescale_grad: the new weight and states."""

    def step(s: Any, weight: Any, grad: Any, mean: Any, var: Any, *rest: Any) -> Any:
        scale, old = rest[-1], rest[0] if mixed else weight
        moves = X.logical_and(X.isfinite(scale), scale != 0.0)
        g = clipped(grad * scale, s.clip_gradient)
        first = s.beta1 * mean + (1 - s.beta1) * g
        second = s.beta2 * var + (1 - s.beta2) * g * g
        new = old - s.eta * (s.lr * first / (X.sqrt(second) + s.epsilon) + s.wd * old)
        made = [X.where(moves, new, weight), X.where(moves, first, mean), X.where(moves, second, var)]
        return (*made, X.where(moves, new, old)) if mixed else tuple(made)

    return step


def adamw(call: KernelCall) -> Any:
    """weight, grad, mean, var[, weight32], rescale_grad -> weight; nothing moves where the scale overflowed."""
    mixed = len(call.inputs) == 6
    return _traced(call, adamw_step(mixed), 0, [2, 3, 4] if mixed else [2, 3])


def lamb_direction_step(bias_correction: bool) -> Callable[..., Any]:
    """From weight, grad, mean, var[, weight32]: the direction, the new moments."""

    def step(s: Any, weight: Any, grad: Any, mean: Any, var: Any, *master: Any) -> Any:
        g = clipped(grad * s.rescale_grad, s.clip_gradient)
        mean = s.beta1 * mean + (1 - s.beta1) * g
        var = s.beta2 * var + (1 - s.beta2) * g * g
        first, second = mean, var
        if bias_correction:
            first, second = mean / (1 - X.power(s.beta1, s.t)), var / (1 - X.power(s.beta2, s.t))
        return first / (X.sqrt(second) + s.epsilon) + s.wd * (master[0] if master else weight), mean, var

    return step


def lamb_direction(call: KernelCall) -> Any:
    """weight, grad, mean, var[, weight32] -> direction."""
    p: Any = call.params
    return _traced(call, lamb_direction_step(p.bias_correction), 0, [2, 3])


def lamb_weight_step(mixed: bool) -> Callable[..., Any]:
    """From weight, g, r1, r2[, weight32]: the new weight, the new master copy."""

    def step(s: Any, weight: Any, g: Any, r1: Any, r2: Any, *master: Any) -> Any:
        r1 = X.where(s.lower_bound >= 0.0, X.maximum(r1, s.lower_bound), r1)
        r1 = X.where(s.upper_bound >= 0.0, X.minimum(r1, s.upper_bound), r1)
        ratio = X.where(X.logical_or(r1 == 0.0, r2 == 0.0), 1.0, r1 / r2)
        new = (master[0] if mixed else weight) - s.lr * ratio * g
        return (new, new) if mixed else (new,)

    return step


def lamb_step(call: KernelCall) -> Any:
    """weight, g, r1, r2[, weight32] -> weight."""
    mixed = len(call.inputs) == 5
    return _traced(call, lamb_weight_step(mixed), 0, [4] if mixed else [])


def all_finite(call: KernelCall) -> Any:
    """1 if every element of every array is finite, else 0."""
    if any(s.layout or s.dtype not in _FLOATS for s in (*call.inputs, *call.outputs)):
        return None
    steps: list[Launch] = []
    scratch = [4 * len(call.inputs)]
    for i, spec in enumerate(call.inputs):
        each = folds.Operand((Kind.SCRATCH, 0, 4 * i), 0, At.ROW)
        size = prod(spec.shape)
        made, parts = folds.launches(
            call.op.name, folds.Rows.blocks(1, size, 1), [folds.read(i, spec)], [each],
            [[(Opcode.MINIMUM, lambda x, k, n: X.isfinite(x))]], None, lambda x, k, n, least: X.minimum(least, 1.0),
            scratch=len(scratch),
        )  # fmt: skip
        steps += made
        scratch += parts
    least = reduce.Reduction(Opcode.MINIMUM)
    made, parts = reduce.launches(f"{call.op.name}_of_all", least, runs_of((len(call.inputs),), (0,)), 0)
    places: dict[Parameter, Parameter] = {
        (Kind.INPUT, 0): (Kind.SCRATCH, 0), (Kind.SCRATCH, 0): (Kind.SCRATCH, len(scratch)),
    }  # fmt: skip
    steps += [launch.taking(places) for launch in made]
    return make_plan(call.op.name, call.context, call.inputs, call.outputs, steps, scratch=[*scratch, *parts])
