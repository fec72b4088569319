# SPDX-License-Identifier: Apache-2.0
"""Progressions and diagonals on a GPU."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from mx_operators_cuda import written
from mx_operators_cuda.codegen import names
from mx_operators_cuda.launch import Kind, make_plan

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

_FLOAT64 = 1


def _plan(call: KernelCall, function: str, arguments: list[written.Argument]) -> Any:
    (output,) = call.outputs
    if output.layout or output.dtype not in names.STORAGE:
        return None
    n = prod(output.shape)
    into = written.write((Kind.OUTPUT, 0), output.dtype)
    types = [names.STORAGE[output.dtype]]
    steps = [written.launch(call.op.name, f"fill::{function}", types, [into, *arguments], n)] if n else []
    return make_plan(call.op.name, call.context, call.inputs, call.outputs, steps)


def _range(call: KernelCall, start: float, step: float, repeat: int, last: float | None) -> Any:
    n = prod(call.outputs[0].shape)
    return _plan(call, "range", [
        written.double(start), written.double(step), written.number(repeat), written.number(n),
        written.double(0.0 if last is None else last), written.number(int(last is not None)),
    ])  # fmt: skip


def arange(call: KernelCall) -> Any:
    """An arithmetic progression, each number several times."""
    p: Any = call.params
    return _range(call, 0.0 if p.stop is None else p.start, p.step, p.repeat, None)


def arange_like(call: KernelCall) -> Any:
    """The same, as many numbers as data has elements, or along an axis."""
    p: Any = call.params
    return _range(call, p.start, p.step, p.repeat, None)


def linspace(call: KernelCall) -> Any:
    """Evenly spaced numbers."""
    p: Any = call.params
    stop = p.start if p.stop is None else p.stop
    gaps = p.num - 1 if p.endpoint else p.num
    step = (stop - p.start) / gaps if gaps > 0 else 0.0
    return _range(call, p.start, step, 1, stop if p.endpoint and p.num > 1 else None)


def eye(call: KernelCall) -> Any:
    """Ones on a diagonal."""
    p: Any = call.params
    return _plan(call, "eye", [written.number(n) for n in (*call.outputs[0].shape, p.k)])
