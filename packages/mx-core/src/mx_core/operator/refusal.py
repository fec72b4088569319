# SPDX-License-Identifier: Apache-2.0
"""The gradient of backward operators that declare none: an error where it is needed, instead of zero.

An operator without a gradient is constant, such as a comparison. A backward operator never is: it is linear in the
out-gradients. So where its gradient is asked for and not declared, the answer is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mx_core.errors import MXNetError
from mx_core.operator.declaration import MAX_TENSORS, Operator
from mx_core.operator.params import Params, required

if TYPE_CHECKING:
    from mx_core.operator.gradient import Entry, GradientBuilder
    from mx_core.operator.knowledge import Shapes

NAME = "_backward_not_offered"


class RefusalParam(Params):
    """Whose derivative is asked for."""

    operator: str = required("the operator")
    num_args: int = required("how many out-gradients it gets", lower=0)
    num_outputs: int = required("how many gradients were wanted", lower=0, upper=MAX_TENSORS)


class Refusal(Operator[RefusalParam]):
    """Says, once its shapes are asked for, that an operator has no derivative of higher order."""

    name = NAME
    differentiable = False
    variadic = "num_args"

    def outputs(self, p: RefusalParam) -> tuple[str, ...]:
        """One per gradient."""
        return tuple(f"grad{i}" for i in range(p.num_outputs))

    def infer_shape(self, p: RefusalParam, s: Shapes) -> None:
        """Always raises.

        Raises
        ------
        MXNetError  names the operator
        """
        raise MXNetError(f"[{p.operator}] derivatives of higher order are not implemented")


def refusal(op: Operator[Any], p: Params, g: GradientBuilder) -> Sequence[Entry | None]:
    """A gradient that is an error for every input of which values are read."""
    n = len(op.inputs(p))
    shape_only = op.shape_only_inputs(p)
    wanted = [i for i in range(n) if i not in shape_only]
    heads = [g.out_grad(name) for name in op.outputs(p)]
    shown = op.backward_of.name if op.backward_of is not None else op.name.removeprefix("_backward_")
    made = g.op(NAME, heads, operator=shown, num_args=len(heads), num_outputs=len(wanted))
    places = dict(zip(wanted, made, strict=True))
    return [places.get(i) for i in range(n)]
