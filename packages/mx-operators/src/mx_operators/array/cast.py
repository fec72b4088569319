# SPDX-License-Identifier: Apache-2.0
"""Element types changed, values copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mx_core import dtypes
from mx_core import expression as X
from mx_core.expression import Expression
from mx_core.operator import Elementwise, Operator, OperatorProperty, SimpleOp, param, required


@param
class CastParam:
    """Target."""

    dtype: str = required("type of the result")


class Cast(Elementwise):
    """The values in another element type; floats to integers truncate towards zero."""

    name = "Cast"
    aliases = ("cast",)
    Param = CastParam

    def expression(self, p: Any) -> Expression:
        """The identity; loading and storing convert."""
        return X.trace(lambda data: data, 1)

    def infer_type(self, p: Any, t: Any) -> None:
        """From the parameter."""
        t.assign("output", p.dtype)

    def inplace(self, p: Any) -> tuple[tuple[int, int], ...]:
        """Sizes differ."""
        return ()

    def backward_operator(self) -> Operator[Any]:
        """A cast to the type of an array."""
        return BackwardCast()

    def gradient(self, p: Any, g: Any) -> Any:
        """Cast back, to the type of data."""
        return g.op("_backward_Cast", (g.out_grad(), g.input(0)))


class BackwardCast(Elementwise):
    """out_grad in the type of data, of which only the type is read."""

    name = "_backward_Cast"
    arguments = ("out_grad", "data")
    results = ("data_grad",)
    shape_only = ("data",)

    def expression(self, p: Any) -> Expression:
        """The identity of the first input."""
        return X.trace(lambda out_grad, data: out_grad, 2)

    def infer_type(self, p: Any, t: Any) -> None:
        """As data."""
        t.unify(["data", "data_grad"])

    def output_types(self, p: Any, input_types: Sequence[int]) -> tuple[int, ...]:
        """As data."""
        return (dtypes.code(input_types[1]),)

    def gradient(self, p: Any, g: Any) -> Any:
        """In the type of out_grad."""
        return g.op(self.name, (g.out_grad(), g.input(0)))[0], None

    def inplace(self, p: Any) -> tuple[tuple[int, int], ...]:
        """Sizes differ."""
        return ()


class CopyTo(SimpleOp):
    """The same values, in another array or on another device."""

    name = "_copyto"

    def function(self, p: Any, data: Any) -> Any:
        """The identity."""
        return data


class IdentityWithAttrLikeRhs(SimpleOp):
    """lhs; that it has the shape of rhs is used by inference."""

    name = "_identity_with_attr_like_rhs"

    def function(self, p: Any, lhs: Any, rhs: Any) -> Any:  # type: ignore[override]
        """lhs."""
        return lhs


OPERATORS: tuple[type[OperatorProperty], ...] = (Cast, CopyTo, IdentityWithAttrLikeRhs)
