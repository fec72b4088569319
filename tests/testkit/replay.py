# SPDX-License-Identifier: Apache-2.0
"""Runs operators and their gradients through the NumPy references alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core import operators
from mx_core.operator import Entry, ReferenceContext, gradient_of


def forward(name: str, attrs: dict[str, Any], inputs: Sequence[Any], is_train: bool) -> tuple[Any, ...]:
    """Outputs (hidden ones included), then new auxiliary states and mutated inputs."""
    op = operators.get(name)
    p = op.Param.parse(attrs, op=name)
    ctx = ReferenceContext(is_train=is_train, scalars=p.scalars, random_key=7)
    return tuple(op.reference(p, inputs, ctx))


def backward(
    name: str,
    attrs: dict[str, Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    heads: Sequence[Any],
    is_train: bool = True,
) -> list[Any]:
    """Gradient per input, None for zero."""
    op = operators.get(name)
    p = op.Param.parse(attrs, op=name)
    made = gradient_of(op, p)
    ctx = ReferenceContext(is_train=is_train, scalars=p.scalars)
    values: list[Sequence[Any]] = []

    def value(entry: Entry) -> Any:
        table = {"out_grad": heads, "input": inputs, "output": outputs}
        return values[entry.index][entry.output] if entry.kind == "node" else table[entry.kind][entry.index]

    for node in made.nodes:
        inner = operators.get(node.op)
        context = ReferenceContext(is_train=ctx.is_train, scalars=node.params.scalars)
        values.append(inner.reference(node.params, [np.asarray(value(e)) for e in node.inputs], context))
    return [None if entry is None else value(entry) for entry in made.grads]
