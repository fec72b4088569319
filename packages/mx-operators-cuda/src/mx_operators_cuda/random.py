# SPDX-License-Identifier: Apache-2.0
"""Random numbers on a GPU, the same as on a CPU; and dropout."""

from __future__ import annotations

from math import ceil, prod
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_core import expression as X
from mx_core.errors import ArgumentError
from mx_operators_cuda import elementwise
from mx_operators_cuda.codegen.random import per_counter, write_draw, write_dropout
from mx_operators_cuda.launch import Condition, Kind, Launch, Parameter, make_plan

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

_FLOATS = frozenset(dtypes.code(n) for n in ("float16", "bfloat16", "float32", "float64"))
#: what the run-time scalars must be
_CONDITIONS = {
    "uniform": Condition(1, 0, False, "high is below low"),
    "normal": Condition(1, None, False, "scale is below 0"),
    "exponential": Condition(0, None, True, "lam is not above 0"),
}
_HEAD: tuple[Parameter, ...] = (
    (Kind.OUTPUT, 0), (Kind.REQUEST, 0), (Kind.RANDOM_KEY, 0), (Kind.RANDOM_OFFSET, 0),
)  # fmt: skip


def _draw(call: KernelCall, distribution: str, given: tuple[Parameter, ...], n_scalars: int) -> Any:
    (target,) = call.outputs
    if target.layout:
        return None
    source = write_draw(elementwise.symbol(call.op.name), distribution, target.dtype)
    n = prod(target.shape)
    threads = -(-n // per_counter(target.dtype, distribution))
    launch = Launch(source, threads, (*_HEAD, *given, (Kind.UINT64, n)))
    conditions = [_CONDITIONS[distribution]] if distribution in _CONDITIONS else []
    return make_plan(
        call.op.name, call.context, call.inputs, call.outputs, [launch] if n else [],
        n_scalars=n_scalars, random_blocks=call.random_blocks, conditions=conditions,
    )  # fmt: skip


def _floating(call: KernelCall, distribution: str, n_scalars: int) -> Any:
    if call.outputs[0].dtype not in _FLOATS:
        return None
    return _draw(call, distribution, tuple((Kind.SCALAR, i) for i in range(n_scalars)), n_scalars)


def uniform(call: KernelCall) -> Any:
    """Uniform in [low, high)."""
    return _floating(call, "uniform", 2)


def normal(call: KernelCall) -> Any:
    """Normal with mean and standard deviation."""
    return _floating(call, "normal", 2)


def exponential(call: KernelCall) -> Any:
    """Exponential with a rate."""
    return _floating(call, "exponential", 1)


def integers(call: KernelCall) -> Any:
    """Integers in [low, high)."""
    p: Any = call.params
    if not -(2**63) <= p.low < p.high <= 2**63:
        raise ArgumentError(f"[{call.op.name}] low {p.low} is not below high {p.high} in int64")
    interval = ((Kind.UINT64, p.low % 2**64), (Kind.UINT64, p.high - p.low))
    return _draw(call, "integers", interval, 0)


def dropout(call: KernelCall) -> Any:
    """Data with elements zeroed, and the scaled mask; masks that axes share are not computed here."""
    p: Any = call.params
    spec = call.inputs[0]
    if p.axes or spec.layout or spec.dtype not in _FLOATS:
        return None
    if p.p == 0 or not (call.is_train or p.mode == "always"):
        return elementwise.plan(
            call, X.trace(lambda x: (x, 1.0), 1), call.inputs, call.outputs, random_blocks=call.random_blocks
        )
    source = write_dropout(elementwise.symbol("Dropout"), spec.dtype, 1 / (1 - p.p) if p.p < 1 else 0.0)
    n = prod(spec.shape)
    parameters: tuple[Parameter, ...] = (
        (Kind.INPUT, 0), (Kind.OUTPUT, 0), (Kind.REQUEST, 0), (Kind.OUTPUT, 1), (Kind.REQUEST, 1),
        (Kind.RANDOM_KEY, 0), (Kind.RANDOM_OFFSET, 0), (Kind.UINT32, ceil(p.p * 2**24)), (Kind.UINT64, n),
    )  # fmt: skip
    steps = [Launch(source, -(-n // 4), parameters)] if n else []
    return make_plan(
        call.op.name, call.context, call.inputs, call.outputs, steps, random_blocks=call.random_blocks
    )
