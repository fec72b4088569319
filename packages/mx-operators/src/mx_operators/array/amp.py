# SPDX-License-Identifier: Apache-2.0
"""Casts of automatic mixed precision: only floating-point arrays of 16 or 32 bits change."""

from __future__ import annotations

from collections.abc import Sequence

from mx_core import dtypes
from mx_core import expression as X
from mx_core.operator import (
    Arrays,
    GradientBuilder,
    Gradients,
    Operator,
    Params,
    ReferenceContext,
    Shapes,
    Types,
    opt,
    required,
)
from mx_core.operator.declaration import MAX_TENSORS
from mx_operators.array.cast import Conversion

_CASTABLE = tuple(map(dtypes.code, ("float16", "bfloat16", "float32")))
_FLOAT32 = dtypes.code("float32")
#: floating-point types; those of 16 bits are equally wide, and float32 holds the numbers of both
_WIDTHS = {dtypes.code("float16"): 16, dtypes.code("bfloat16"): 16, _FLOAT32: 32, dtypes.code("float64"): 64}


class AmpCastParam(Params):
    """Target."""

    dtype: str = required(
        "type of the result",
        choices=("bfloat16", "float16", "float32", "float64", "int32", "int64", "int8", "uint8"),
    )


class AmpCast(Conversion[AmpCastParam]):
    """The values in another element type if they are float16, bfloat16 or float32; others unchanged."""

    name = "amp_cast"

    def infer_type(self, p: AmpCastParam, t: Types) -> None:
        """From the parameter for small floats, else as data."""
        data = t.get("data")
        if data is not None:
            t.assign("output", p.dtype if data in _CASTABLE else data)


class AmpMulticastParam(Params):
    """How many, towards what."""

    num_outputs: int = required("number of arrays", lower=1, upper=MAX_TENSORS)
    cast_narrow: bool = opt(False, "to the narrowest floating-point type instead of the widest")


class AmpMulticast(Operator[AmpMulticastParam]):
    """Arrays of any shapes; floating-point ones are brought to the widest of their types, or the narrowest.

    The widest of float16 and bfloat16 is float32; the narrowest is the one that comes first.
    """

    name = "amp_multicast"
    variadic = "num_outputs"

    def inputs(self, p: AmpMulticastParam) -> tuple[str, ...]:
        return tuple(f"data_{i}" for i in range(p.num_outputs))

    def outputs(self, p: AmpMulticastParam) -> tuple[str, ...]:
        return tuple(f"output{i}" for i in range(p.num_outputs)) if p.num_outputs > 1 else ("output",)

    def infer_shape(self, p: AmpMulticastParam, s: Shapes) -> None:
        """Each as its input."""
        for data, output in zip(self.inputs(p), self.outputs(p), strict=True):
            s.unify([data, output])

    def _types(self, p: AmpMulticastParam, given: Sequence[int]) -> list[int]:
        floats = [code for code in given if code in _WIDTHS]
        if not floats:
            return list(given)
        common = (min if p.cast_narrow else max)(floats, key=_WIDTHS.__getitem__)
        if _WIDTHS[common] == 16 and not p.cast_narrow and len(set(floats)) > 1:
            common = _FLOAT32
        return [common if code in _WIDTHS else code for code in given]

    def infer_type(self, p: AmpMulticastParam, t: Types) -> None:
        """When all inputs are known."""
        given = [code for name in self.inputs(p) if (code := t.get(name)) is not None]
        if len(given) == p.num_outputs:
            for output, code in zip(self.outputs(p), self._types(p, given), strict=True):
                t.assign(output, code)

    def gradient(self, p: AmpMulticastParam, g: GradientBuilder) -> Gradients:
        pairs = zip(g.out_grads, g.inputs, strict=True)
        return [g.op("_backward_Cast", pair)[0] for pair in pairs]

    def reference(self, p: AmpMulticastParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        types = self._types(p, [dtypes.code(x.dtype) for x in inputs])
        return tuple(X.convert(x, dtypes.numpy_dtype(code)) for x, code in zip(inputs, types, strict=True))
