# SPDX-License-Identifier: Apache-2.0
"""Casts of automatic mixed precision: only floating-point arrays of 16 or 32 bits change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mx_core import dtypes
from mx_core import expression as X
from mx_core.operator import OperatorProperty, opt, param, required
from mx_core.operator.property import MAX_TENSORS, ReferenceContext
from mx_operators.array.cast import Cast

_CASTABLE = tuple(map(dtypes.code, ("float16", "bfloat16", "float32")))
#: from narrow to wide
_WIDTHS = tuple(map(dtypes.code, ("float16", "float32", "float64")))


@param
class AmpCastParam:
    """Target."""

    dtype: str = required(
        "type of the result",
        choices=("bfloat16", "float16", "float32", "float64", "int32", "int64", "int8", "uint8"),
    )


class AmpCast(Cast):
    """The values in another element type if they are float16, bfloat16 or float32; others unchanged."""

    name = "amp_cast"
    aliases = ()  # type: ignore[assignment]  # narrowed to one name in Cast
    Param = AmpCastParam  # type: ignore[assignment]  # likewise

    def infer_type(self, p: Any, t: Any) -> None:
        """From the parameter for small floats, else as data."""
        data = t.get("data")
        if data is not None:
            t.assign("output", p.dtype if data in _CASTABLE else data)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator comes with Cast."""
        return ()


@param
class AmpMulticastParam:
    """How many, towards what."""

    num_outputs: int = required("number of arrays", lower=1, upper=MAX_TENSORS)
    cast_narrow: bool = opt(False, "to the narrowest floating-point type instead of the widest")


class AmpMulticast(OperatorProperty):
    """Arrays of any shapes; floating-point ones are brought to the widest of their types, or the narrowest."""

    name = "amp_multicast"
    Param = AmpMulticastParam
    variadic = "num_outputs"

    def inputs(self, p: Any) -> tuple[str, ...]:
        """data_0, data_1, …"""
        return tuple(f"data_{i}" for i in range(p.num_outputs))

    def outputs(self, p: Any) -> tuple[str, ...]:
        """One per array."""
        return tuple(f"output{i}" for i in range(p.num_outputs)) if p.num_outputs > 1 else ("output",)

    def infer_shape(self, p: Any, s: Any) -> None:
        """Each as its input."""
        for data, output in zip(self.inputs(p), self.outputs(p), strict=True):
            s.unify([data, output])

    def _types(self, p: Any, given: Sequence[int]) -> list[int]:
        floats = [_WIDTHS.index(code) for code in given if code in _WIDTHS]
        if not floats:
            return list(given)
        common = _WIDTHS[min(floats) if p.cast_narrow else max(floats)]
        return [common if code in _WIDTHS else code for code in given]

    def infer_type(self, p: Any, t: Any) -> None:
        """When all inputs are known."""
        given = [t.get(name) for name in self.inputs(p)]
        if None not in given:
            for output, code in zip(self.outputs(p), self._types(p, given), strict=True):
                t.assign(output, code)

    def gradient(self, p: Any, g: Any) -> Any:
        """Each cast back."""
        return [g.op("_backward_Cast", (g.out_grad(i), g.input(i)))[0] for i in range(p.num_outputs)]

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Conversions."""
        types = self._types(p, [dtypes.code(x.dtype) for x in inputs])
        return tuple(X.convert(x, dtypes.numpy_dtype(code)) for x, code in zip(inputs, types, strict=True))


OPERATORS: tuple[type[OperatorProperty], ...] = (AmpCast, AmpMulticast)
