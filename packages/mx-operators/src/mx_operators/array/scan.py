# SPDX-License-Identifier: Apache-2.0
"""Running sums."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np

from mx_core import dtypes
from mx_core.operator import OperatorProperty, opt, param
from mx_core.operator.property import ReferenceContext
from mx_operators.array.join import checked_axis
from mx_operators.nn.base import wide


@param
class CumsumParam:
    """Where, in which type."""

    axis: int | None = opt(None, "axis along which is summed; None: the flattened array")
    dtype: str | None = opt(
        None,
        "type of the result; None: as a",
        choices=("float16", "float32", "float64", "int32", "int64", "int8", None),
    )


class Cumsum(OperatorProperty):
    """output[i] = a[0] + … + a[i] along an axis, or over all elements in their order."""

    name = "_np_cumsum"
    aliases = ("cumsum",)
    Param = CumsumParam
    arguments: ClassVar[tuple[str, ...]] = ("a",)

    def infer_shape(self, p: Any, s: Any) -> None:
        """As a, or flat."""
        a = s.get("a")
        if p.axis is not None:
            if a is not None:
                checked_axis(p.axis, len(a), s)
            s.unify(["a", "output"])
        elif a is not None:
            s.assign("output", (-1 if -1 in a else prod(a),))

    def infer_type(self, p: Any, t: Any) -> None:
        """From the parameter, or as a."""
        t.assign("output", p.dtype if p.dtype is not None else t.get("a"))

    def gradient(self, p: Any, g: Any) -> Any:
        """Sums from the other end."""
        return g.op("_backward_np_cumsum", (g.out_grad(), g.input(0)), params=p)

    def companions(self) -> tuple[OperatorProperty, ...]:
        """Its backward operator."""
        return (BackwardCumsum(),)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """NumPy's cumsum, in the type of the result."""
        dtype = dtypes.numpy_dtype(dtypes.code(p.dtype)) if p.dtype else inputs[0].dtype
        x = inputs[0].astype(dtype)
        return (np.cumsum(wide(x), p.axis, dtype=wide(x).dtype).astype(dtype),)


class BackwardCumsum(OperatorProperty):
    """Gradient of _np_cumsum: running sums of out_grad from the end."""

    name = "_backward_np_cumsum"
    Param = CumsumParam
    arguments: ClassVar[tuple[str, ...]] = ("out_grad", "a")
    results = ("a_grad",)
    shape_only_inputs = frozenset((1,))

    def infer_shape(self, p: Any, s: Any) -> None:
        """As a; out_grad as the forward operator gives it."""
        s.unify(["a", "a_grad"])
        a = s.known("a")
        if a is not None:
            s.assign("out_grad", (prod(a),) if p.axis is None else a)
            if p.axis is not None:
                checked_axis(p.axis, len(a), s)

    def infer_type(self, p: Any, t: Any) -> None:
        """As a."""
        t.unify(["a", "a_grad"])

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Reversed, summed, reversed."""
        g = wide(inputs[0])
        axis = 0 if p.axis is None else p.axis
        summed = np.flip(np.cumsum(np.flip(g, axis), axis, dtype=g.dtype), axis)
        return (summed.reshape(inputs[1].shape).astype(inputs[1].dtype),)


OPERATORS: tuple[type[OperatorProperty], ...] = (Cumsum,)
