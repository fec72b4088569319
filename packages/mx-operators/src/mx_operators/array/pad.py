# SPDX-License-Identifier: Apache-2.0
"""Values put around arrays: Pad."""

from __future__ import annotations

import numpy as np

from mx_core.operator import (
    Array,
    Arrays,
    GradientBuilder,
    Gradients,
    Operator,
    Params,
    ReferenceContext,
    ShapeOnly,
    Shapes,
    opt,
    required,
)


class PadParam(Params):
    """How much, with what."""

    mode: str = required("what is put around", choices=("constant", "edge", "reflect"))
    pad_width: tuple[int, ...] = required("before and after, per axis", lower=0)
    constant_value: float = opt(0.0, "for mode constant", runtime=True)


class Pad(Operator[PadParam]):
    """(N, C, …) with values put around the spatial axes."""

    name = "Pad"
    aliases = ("pad",)

    def widths(self, p: PadParam) -> list[tuple[int, int]]:
        """Pairs per axis."""
        return list(zip(p.pad_width[::2], p.pad_width[1::2], strict=True))

    def infer_shape(self, p: PadParam, s: Shapes) -> None:
        data = s.get("data")
        if data is None:
            return
        if len(p.pad_width) != 2 * len(data):
            raise s.error(f"pad_width: expected {2 * len(data)} values for data {data}, got {p.pad_width}")
        widths = self.widths(p)
        for extent, (a, b) in zip(data, widths, strict=True):
            if p.mode == "reflect" and extent >= 0 and max(a, b) >= max(extent, 1):
                raise s.error(f"pad_width {p.pad_width} reflects more than data {data} has")
            if p.mode == "edge" and extent == 0 and a + b:
                raise s.error(f"data {data} has no edge to repeat")
        s.assign("output", [e + a + b if e >= 0 else -1 for e, (a, b) in zip(data, widths, strict=True)])

    def reference(self, p: PadParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        if p.mode == "constant":
            return (np.pad(inputs[0], self.widths(p), constant_values=p.constant_value),)
        return (np.pad(inputs[0], self.widths(p), mode="edge" if p.mode == "edge" else "reflect"),)

    def backward(self, p: PadParam, out_grad: Array, data: ShapeOnly) -> Array:
        """Every element added to the element it was copied from, axis by axis."""
        grad = out_grad
        for axis, (extent, width) in enumerate(zip(data.shape, self.widths(p), strict=True)):
            if p.mode == "constant":
                cut = [slice(None)] * grad.ndim
                cut[axis] = slice(width[0], width[0] + extent)
                grad = grad[tuple(cut)]
                continue
            source = np.pad(np.arange(extent), width, mode="edge" if p.mode == "edge" else "reflect")
            folded = np.zeros((extent, *np.delete(grad.shape, axis)), grad.dtype)
            np.add.at(folded, source, np.moveaxis(grad, axis, 0))
            grad = np.moveaxis(folded, 0, axis)
        return grad

    def backward_gradient(self, p: PadParam, g: GradientBuilder) -> Gradients:
        """Padded again, with zeros where constants were."""
        return {"out_grad": g.op("Pad", (g.out_grad(),), params=p.replace(constant_value=0.0))[0]}
