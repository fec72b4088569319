# SPDX-License-Identifier: Apache-2.0
"""Arrays with a part replaced: _slice_assign, _slice_assign_scalar."""

from __future__ import annotations

from mx_core.operator import (
    Arrays,
    Entry,
    GradientBuilder,
    Gradients,
    Operator,
    ReferenceContext,
    Shapes,
    opt,
)
from mx_operators.array.slice import PartParam, SliceParam, sliced_shape, slices


class SliceAssign(Operator[SliceParam]):
    """lhs with rhs written into a part of it."""

    name = "_slice_assign"
    aliases = ("_crop_assign",)
    arguments = ("lhs", "rhs")
    inplace_pairs = ((0, 0),)

    def infer_shape(self, p: SliceParam, s: Shapes) -> None:
        """rhs has the shape of the part."""
        s.unify(["lhs", "output"])
        lhs = s.get("lhs")
        if lhs is not None:
            s.assign("rhs", sliced_shape(slices(p, lhs, s), lhs))

    def gradient(self, p: SliceParam, g: GradientBuilder) -> Gradients:
        """Zero in the part for lhs, the part for rhs."""
        return {"lhs": _without(p, g), "rhs": g.op("slice", (g.out_grad(),), params=p)[0]}

    def reference(self, p: SliceParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        out = inputs[0].copy()
        out[slices(p, out.shape)] = inputs[1]
        return (out,)


class SliceAssignScalarParam(PartParam, leading=True):
    """The number and the part."""

    scalar: float = opt(0.0, "the number", runtime=True)


class SliceAssignScalar(Operator[SliceAssignScalarParam]):
    """data with a number written into a part of it."""

    name = "_slice_assign_scalar"
    aliases = ("_crop_assign_scalar",)
    inplace_pairs = ((0, 0),)

    def infer_shape(self, p: SliceAssignScalarParam, s: Shapes) -> None:
        s.unify(["data", "output"])
        data = s.get("data")
        if data is not None:
            slices(p, data, s)

    def gradient(self, p: SliceAssignScalarParam, g: GradientBuilder) -> Gradients:
        return {"data": _without(p, g)}

    def reference(self, p: SliceAssignScalarParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        out = inputs[0].copy()
        out[slices(p, out.shape)] = p.scalar
        return (out,)


def _without(p: PartParam, g: GradientBuilder) -> Entry:
    """The out-gradient, zero in the part."""
    return g.op("_slice_assign_scalar", (g.out_grad(),), begin=p.begin, end=p.end, step=p.step, scalar=0.0)[0]
