# SPDX-License-Identifier: Apache-2.0
"""The kernel generator of device `gpu`: any elementwise expression as one CUDA kernel."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from mx_core.expression import Expression
from mx_operators_cuda.codegen import Layout, layout_of, write_kernel
from mx_operators_cuda.codegen.source import strided_axes
from mx_operators_cuda.launch import Kind, Launch, Parameter, make_plan

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall, TensorSpec


#: nothing but zeros
ZERO = Expression(0, 0, (0.0,), (), (0,))


def generate(expression: Expression, call: KernelCall) -> Any:
    """A plan that evaluates `expression` in one pass over its inputs.

    Returns
    -------
    capsule `mx.plan.v1`, or None for opaque layouts, outputs of different shapes and element types
    without elementwise computation

    Raises
    ------
    ShapeError  an input does not broadcast to the outputs
    MXNetError  the GPU, its driver or NVRTC is missing
    """
    return plan(call, expression, call.inputs, call.outputs)


def plan(
    call: KernelCall,
    expression: Expression,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    random_blocks: int = 0,
    n_scalars: int | None = None,
) -> Any:
    """A plan of `call` that evaluates an expression over its first inputs, which may be looked at in
    another shape; see `generate`. `n_scalars` is the call's number of run-time scalars, by default the expression's."""
    if any(spec.layout for spec in (*call.inputs, *call.outputs)):
        return None
    launch = kernel(call.op.name, expression, inputs, outputs)
    if launch is None:
        return None
    launches = [launch] if launch.threads else []  # there is nothing to compute of no elements
    return make_plan(
        call.op.name, call.context, call.inputs, call.outputs, launches,
        n_scalars=expression.n_scalars if n_scalars is None else n_scalars, random_blocks=random_blocks,
    )  # fmt: skip


def kernel(
    name: str, expression: Expression, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> Launch | None:
    """The kernel of an expression over plain tensors, and how it is launched; needs no GPU.

    Returns
    -------
    Launch, or None for outputs of different shapes and element types without elementwise computation

    Raises
    ------
    ShapeError  an input does not broadcast to the outputs
    """
    shapes = {spec.shape for spec in outputs}
    if len(shapes) != 1:
        return None
    layout = layout_of(shapes.pop(), [spec.shape for spec in inputs])
    try:
        source = write_kernel(
            symbol(name), expression, [s.dtype for s in inputs], [s.dtype for s in outputs], layout
        )
    except TypeError:
        return None
    threads = -(-layout.elements // source.pack)
    return Launch(source, threads, parameters(expression, len(outputs), layout))


@cache
def identity() -> Expression:
    """Its input."""
    return Expression(1, 0, (), (), (0,))


def symbol(name: str) -> str:
    """A C identifier for an operator's kernel."""
    return "mx_" + re.sub(r"\W", "_", name)


def parameters(expression: Expression, n_outputs: int, layout: Layout) -> tuple[Parameter, ...]:
    """What the parameters of `write_kernel`'s kernel are, in its order."""
    index = Kind.UINT64 if layout.wide else Kind.UINT32
    made: list[Parameter] = [(Kind.INPUT, i) for i in range(expression.n_inputs)]
    for o in range(n_outputs):
        made += [(Kind.OUTPUT, o), (Kind.REQUEST, o)]
    made += [(Kind.SCALAR, i) for i in range(expression.n_scalars)]
    made.append((index, layout.elements))
    if not layout.flat:
        made += [(index, size) for size in layout.sizes[1:]]
        made += [(index, layout.strides[i][axis]) for i, axis in strided_axes(layout)]
    return tuple(made)
