# SPDX-License-Identifier: Apache-2.0
"""Optimizer updates on a GPU: weight, gradient and states in one pass, states written in place.

The kernels are made of the steps that the operators declare for their references.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from mx_core import operators
from mx_core.expression import Expression
from mx_operators_cuda import elementwise
from mx_operators_cuda.codegen.numpy_tracing import trace_numpy
from mx_operators_cuda.launch import Kind, Parameter, make_plan

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

_WRITE = 1


@cache
def expression(name: str) -> Expression:
    """From weight, gradient, states and the run-time parameters: new weight, new states."""
    op: Any = operators.get(name)
    scalars = [info.name for info in op.Param.fields() if info.runtime]
    n_inputs = len(op.arguments)

    def step(*values: Any) -> Any:
        return op.step(
            SimpleNamespace(**dict(zip(scalars, values[n_inputs:], strict=True))), *values[:n_inputs]
        )

    return trace_numpy(step, n_inputs, len(scalars))


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
