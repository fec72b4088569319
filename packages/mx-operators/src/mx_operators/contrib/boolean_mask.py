# SPDX-License-Identifier: Apache-2.0
"""Rows chosen by a mask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core.operator import OperatorProperty, opt, param
from mx_core.operator.property import ReferenceContext
from mx_operators.contrib.differentiable import Differentiable


@param
class BooleanMaskParam:
    """Axis."""

    axis: int = opt(0, "the axis that is masked; only the first one", lower=0, upper=0)


class BooleanMask(Differentiable):
    """The rows of data (N, …) where index (N,) is not zero: (n, …), n known when it has run."""

    name = "_contrib_boolean_mask"
    aliases = ("_npi_boolean_mask",)
    Param = BooleanMaskParam
    arguments = ("data", "index")
    read = ("index",)
    dynamic_output = True

    def infer_shape(self, p: Any, s: Any) -> None:
        """One index per row."""
        data = s.get("data")
        if data is None:
            return
        if not data:
            raise s.error("data: expected at least 1 dimension, got ()")
        s.assign("index", data[:1])
        s.assign("output", (-1, *data[1:]))

    def infer_type(self, p: Any, t: Any) -> None:
        """As data; index of any type."""
        t.unify(["data", "output"])
        if t.get("index") is None:
            t.assign("index", t.get("data"))

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Indexing."""
        return (inputs[0][inputs[1] != 0],)

    def pull(self, p: Any, heads: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
        """Back to the rows they came from."""
        grad = np.zeros(inputs[0].shape, heads[0].dtype)
        grad[inputs[1] != 0] = heads[0]
        return (grad,)


OPERATORS: tuple[type[OperatorProperty], ...] = (BooleanMask,)
