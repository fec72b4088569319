# SPDX-License-Identifier: Apache-2.0
"""What a backward operator's inputs owe the operator it belongs to.

A backward operator reads out-gradients, inputs and outputs of its forward operator. The gradient
rule says which is which, so the forward operator's own inference tells which shapes and types
belong together: kernels of backward operators may rely on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mx_core.errors import MXNetError
from mx_core.operator.gradient import Entry, gradient_of

if TYPE_CHECKING:
    from mx_core.operator.infer import Shapes, Types
    from mx_core.operator.params import Params
    from mx_core.operator.property import OperatorProperty


def roles(op: OperatorProperty, p: Params) -> tuple[Entry, ...] | None:
    """What each input of a backward operator is to its forward operator; None if that is not known.

    Elementwise operators are left out: whatever broadcasts they can compute.
    """
    from mx_core.operator.simple import Elementwise

    forward = op.companion_of
    if forward is None or type(p) is not forward.Param or isinstance(op, Elementwise):
        return None
    for node in gradient_of(forward, p).nodes:
        if node.op == op.name and node.params == p:
            return node.inputs
    return None


def infer_through_forward(op: OperatorProperty, p: Params, state: Shapes | Types, rule: str) -> None:
    """Runs a rule (`infer_shape` or `infer_type`) of the forward operator on a backward operator's inputs.

    Raises
    ------
    ShapeError, DTypeError  they do not belong to one application of the forward operator
    """
    entries = roles(op, p)
    forward = op.companion_of
    if entries is None or forward is None:
        return
    outputs = list(forward.outputs(p))
    tensors = [*forward.inputs(p), *forward.aux(p), *outputs]
    names = {"input": tensors, "output": outputs, "out_grad": outputs}
    pairs = [
        (mine, names[entry.kind][entry.index])
        for mine, entry in zip([*op.inputs(p), *op.aux(p)], entries, strict=True)
        if entry.kind != "node"
    ]
    whole = type(state)(state.where, tensors, [None] * len(tensors))
    try:
        for mine, tensor in pairs:
            whole.assign(tensor, state.get(mine))  # type: ignore[arg-type]
        while whole.changed:
            whole.changed = False
            getattr(forward, rule)(p, whole)
        for mine, tensor in pairs:
            state.assign(mine, whole.get(tensor))  # type: ignore[arg-type]
    except MXNetError as error:
        given = ", ".join(f"{mine} {state.get(mine)}" for mine, _ in pairs)
        raise type(error)(f"{error}; {given} do not belong to one {forward.name}") from error
