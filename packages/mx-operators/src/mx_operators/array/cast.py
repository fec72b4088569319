# SPDX-License-Identifier: Apache-2.0
"""Element types changed, values copied."""

from __future__ import annotations

from collections.abc import Sequence

from mx_core import dtypes
from mx_core import expression as X
from mx_core.expression import Expression, Traced
from mx_core.operator import (
    Elementwise,
    GradientBuilder,
    Gradients,
    NoParams,
    Operator,
    Params,
    SimpleOp,
    Types,
    required,
)
from mx_core.operator.declaration import P


class CastParam(Params):
    """Target."""

    dtype: str = required("type of the result")


class Conversion(Elementwise[P]):
    """The values in another element type; loading and storing convert."""

    def expression(self, p: P) -> Expression:
        return X.trace(lambda data: data, 1)

    def inplace(self, p: P) -> tuple[tuple[int, int], ...]:
        return ()

    def gradient(self, p: P, g: GradientBuilder) -> Gradients:
        """Converted back, to the type of data."""
        return {"data": g.op("_backward_Cast", (g.out_grad(), g.input("data")))[0]}


class Cast(Conversion[CastParam]):
    """The values in another element type; floats to integers truncate towards zero."""

    name = "Cast"
    aliases = ("cast",)

    def infer_type(self, p: CastParam, t: Types) -> None:
        t.assign("output", p.dtype)

    def backward_operator(self) -> Operator[NoParams]:
        return BackwardCast()


class BackwardCast(Elementwise):
    """out_grad in the type of data, of which only the type is read."""

    name = "_backward_Cast"
    arguments = ("out_grad", "data")
    results = ("data_grad",)
    shape_only = ("data",)
    free_types = {"out_grad": None}

    def expression(self, p: NoParams) -> Expression:
        """The identity of the first input."""
        return X.trace(lambda out_grad, data: out_grad, 2)

    def output_types(self, p: NoParams, input_types: Sequence[int]) -> tuple[int, ...]:
        """As data."""
        return (dtypes.code(input_types[1]),)

    def gradient(self, p: NoParams, g: GradientBuilder) -> Gradients:
        """In the type of out_grad."""
        return {"out_grad": g.op(self.name, (g.out_grad(), g.input("out_grad")))[0]}

    def inplace(self, p: NoParams) -> tuple[tuple[int, int], ...]:
        return ()


class CopyTo(SimpleOp):
    """The same values, in another array or on another device."""

    name = "_copyto"

    def function(self, p: NoParams, data: Traced) -> Traced:
        """The identity."""
        return data


class IdentityWithAttrLikeRhs(SimpleOp):
    """lhs; that it has the shape of rhs is used by inference."""

    name = "_identity_with_attr_like_rhs"

    def function(self, p: NoParams, lhs: Traced, rhs: Traced) -> Traced:
        """lhs."""
        return lhs
