# SPDX-License-Identifier: Apache-2.0
"""Updates of several weights with moments, rates of layers, and a history per row, on a GPU."""

from __future__ import annotations

from math import prod
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from mx_core import expression as X
from mx_core.expression import Opcode
from mx_core.kernels import TensorSpec
from mx_operators_cuda import elementwise, folds
from mx_operators_cuda.codegen.rows import At
from mx_operators_cuda.folds import FLOATS, Operand, Rows
from mx_operators_cuda.launch import Kind, Launch, Parameter, make_plan
from mx_operators_cuda.optimizer import adamw_step, clipped, lamb_direction_step, lamb_weight_step
from mx_operators_cuda.written import bits_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mx_core.kernels import KernelCall

_WRITE: Parameter = (Kind.UINT32, 1)
_FLOAT32 = 0
#: a tensor of a launch: where it is, what it is
_Tensor = tuple[Parameter, TensorSpec]


def _runtime(op: Any) -> list[str]:
    return [info.name for info in op.Param.fields() if info.runtime]


def _launch(
    name: str,
    step: Callable[..., Any],
    scalars: dict[str, Parameter],
    inputs: Sequence[_Tensor],
    outputs: Sequence[tuple[Parameter, Parameter, TensorSpec]],
) -> Launch | None:
    """`step(scalars, *inputs)` elementwise, on tensors of a plan; an output also has its request."""

    def function(*values: Any) -> Any:
        given = SimpleNamespace(**dict(zip(scalars, values[len(inputs) :], strict=True)))
        return step(given, *values[: len(inputs)])

    e = X.trace(function, len(inputs), len(scalars))
    made = elementwise.kernel(name, e, [s for _, s in inputs], [s for *_, s in outputs])
    if made is None:
        return None
    where: dict[Parameter, Parameter] = {(Kind.INPUT, i): place for i, (place, _) in enumerate(inputs)}
    where |= {(Kind.SCALAR, i): place for i, place in enumerate(scalars.values())}
    for o, (place, request, _) in enumerate(outputs):
        where |= {(Kind.OUTPUT, o): place, (Kind.REQUEST, o): request}
    return made.taking(where)


def _own(call: KernelCall, i: int) -> tuple[list[_Tensor], bool]:
    """What weight `i` brings, and whether it has a master copy."""
    own = call.op.own  # type: ignore[attr-defined]
    first = i * len(own)
    return [((Kind.INPUT, k), call.inputs[k]) for k in range(first, first + len(own))], "weight32" in own


def _fits(call: KernelCall) -> bool:
    return not any(s.layout or s.dtype not in FLOATS for s in (*call.inputs, *call.outputs))


def _plan(call: KernelCall, steps: Sequence[Launch | None], scratch: Sequence[int] = ()) -> Any:
    if any(step is None for step in steps):
        return None
    return make_plan(
        call.op.name, call.context, call.inputs, call.outputs, [s for s in steps if s is not None and s.threads],
        n_scalars=len(_runtime(call.op)), scratch=scratch,
    )  # fmt: skip


def adamw(call: KernelCall) -> Any:
    """AdamW of each of several weights; nothing moves where the scale overflowed."""
    p: Any = call.params
    if not _fits(call):
        return None
    scale = (Kind.INPUT, len(call.inputs) - 1), TensorSpec((1,), call.inputs[-1].dtype)
    steps = []
    for i in range(p.num_weights):
        tensors, mixed = _own(call, i)
        scalars: dict[str, Parameter] = {n: (Kind.SCALAR, j) for j, n in enumerate(_runtime(call.op))}
        scalars |= {"lr": bits_of(p.lrs[i]), "wd": bits_of(p.wds[i]), "eta": bits_of(p.etas[i])}
        rank = max(len(tensors[0][1].shape), 1)
        one = scale[0], TensorSpec((1,) * rank, scale[1].dtype)
        outputs: list[tuple[Parameter, Parameter, TensorSpec]] = [
            ((Kind.OUTPUT, i), (Kind.REQUEST, i), call.outputs[i]), *((at, _WRITE, s) for at, s in tensors[2:])
        ]  # fmt: skip
        steps.append(_launch(call.op.name, adamw_step(mixed), scalars, [*tensors, one], outputs))
    return _plan(call, steps)


def lamb(call: KernelCall) -> Any:
    """LAMB of each of several weights: a direction, its norm and that of the weight, a step."""
    p: Any = call.params
    if not _fits(call):
        return None
    steps: list[Launch | None] = []
    scratch: list[int] = []
    for i in range(p.num_tensors):
        tensors, mixed = _own(call, i)
        weight = tensors[0]
        n = prod(weight[1].shape)
        if not n:
            continue
        scalars: dict[str, Parameter] = {name: (Kind.SCALAR, j) for j, name in enumerate(_runtime(call.op))}
        scalars |= {"wd": bits_of(p.wds[i]), "t": bits_of(float(p.step_count[i]))}
        kind = 1 if weight[1].dtype == 1 else _FLOAT32
        size = 8 if kind == 1 else 4
        direction: _Tensor = (Kind.SCRATCH, len(scratch)), TensorSpec(weight[1].shape, kind)
        norms: Parameter = (Kind.SCRATCH, len(scratch) + 1)
        scratch += [n * size, 2 * size]
        written = [(direction[0], _WRITE, direction[1]), *((at, _WRITE, s) for at, s in tensors[2:4])]
        steps.append(
            _launch(
                f"{call.op.name}_direction", lamb_direction_step(p.bias_correction), scalars, tensors, written
            )
        )
        for k, (place, spec) in enumerate((weight, direction)):
            made, parts = folds.launches(
                f"{call.op.name}_norm", Rows.blocks(1, n, 1), [Operand(place, spec.dtype)],
                [Operand((norms[0], norms[1], k * size), kind, At.ROW)], [[(Opcode.ADD, lambda x, k, n: x * x)]], None,
                lambda x, k, n, total: X.sqrt(total), scratch=len(scratch),
            )  # fmt: skip
            steps += made
            scratch += parts
        one = TensorSpec((1,) * max(len(weight[1].shape), 1), kind)
        read: list[_Tensor] = [
            weight, direction, ((norms[0], norms[1], 0), one), ((norms[0], norms[1], size), one), *tensors[4:]
        ]  # fmt: skip
        outputs: list[tuple[Parameter, Parameter, TensorSpec]] = [
            ((Kind.OUTPUT, i), (Kind.REQUEST, i), call.outputs[i]), *((at, _WRITE, s) for at, s in tensors[4:])
        ]  # fmt: skip
        scalars = {**scalars, "lr": bits_of(p.learning_rates[i])}
        steps.append(_launch(f"{call.op.name}_step", lamb_weight_step(mixed), scalars, read, outputs))
    return _plan(call, steps, scratch)


def lars(call: KernelCall) -> Any:
    """lrs, sums of squares of weights and gradients, wds -> rates of layers."""

    def step(s: Any, lr: Any, weights: Any, grads: Any, wd: Any) -> Any:
        w, g = X.sqrt(weights), X.sqrt(grads)
        scaled = lr * s.eta * w / (s.rescale_grad * g + wd * w + s.eps)
        return X.where(X.logical_and(weights > 0.0, grads > 0.0), scaled, lr)

    if not _fits(call):
        return None
    scalars: dict[str, Parameter] = {name: (Kind.SCALAR, j) for j, name in enumerate(_runtime(call.op))}
    inputs: list[_Tensor] = [((Kind.INPUT, i), s) for i, s in enumerate(call.inputs)]
    output: tuple[Parameter, Parameter, TensorSpec] = (Kind.OUTPUT, 0), (Kind.REQUEST, 0), call.outputs[0]
    return _plan(call, [_launch(call.op.name, step, scalars, inputs, [output])])


def group_adagrad(call: KernelCall) -> Any:
    """weight, grad, history of rows -> weight; the new history is in scratch until every row has been read."""
    weight, grad, history = call.inputs
    if not _fits(call) or len({s.dtype for s in (*call.inputs, *call.outputs)}) > 1:
        return None
    scalars: dict[str, Parameter] = {name: (Kind.SCALAR, j) for j, name in enumerate(_runtime(call.op))}
    names = list(scalars)
    rows, columns = weight.shape
    if rows * columns == 0:
        return _plan(call, [])
    fresh = Operand((Kind.SCRATCH, 0), 1 if weight.dtype == 1 else _FLOAT32, At.ROW)

    def squares(g: Any, h: Any, *rest: Any) -> Any:
        s = SimpleNamespace(**dict(zip(names, rest, strict=False)))
        scaled = clipped(g * s.rescale_grad, s.clip_gradient)
        return scaled * scaled

    def mean(g: Any, h: Any, *rest: Any) -> Any:
        return h + rest[-1] / rest[-2]

    steps: list[Launch | None] = []
    made, parts = folds.launches(
        call.op.name, Rows.blocks(rows, columns, 1), [folds.read(1, grad), folds.read(2, history, At.ROW)], [fresh],
        [[(Opcode.ADD, squares)]], None, mean, scalars=len(names), scratch=1,
    )  # fmt: skip
    steps += made
    kept: _Tensor = fresh.place, TensorSpec((rows, 1), fresh.dtype)

    def step(s: Any, w: Any, g: Any, h: Any) -> Any:
        return w - s.lr * clipped(g * s.rescale_grad, s.clip_gradient) / X.sqrt(h + s.epsilon)

    inputs: list[_Tensor] = [((Kind.INPUT, 0), weight), ((Kind.INPUT, 1), grad), kept]
    output: tuple[Parameter, Parameter, TensorSpec] = (Kind.OUTPUT, 0), (Kind.REQUEST, 0), call.outputs[0]
    steps.append(_launch(f"{call.op.name}_step", step, scalars, inputs, [output]))
    state: tuple[Parameter, Parameter, TensorSpec] = (Kind.INPUT, 2), _WRITE, history
    steps.append(_launch(f"{call.op.name}_history", lambda s, h: h, {}, [kept], [state]))
    return _plan(call, steps, [rows * (8 if fresh.dtype == 1 else 4), *parts])
