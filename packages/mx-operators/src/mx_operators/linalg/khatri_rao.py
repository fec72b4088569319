# SPDX-License-Identifier: Apache-2.0
"""Kronecker products column by column."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from mx_core.operator import OperatorProperty, param, required
from mx_core.operator.property import MAX_TENSORS, ReferenceContext


@param
class KhatriRaoParam:
    """How many."""

    num_args: int = required("how many matrices", lower=1, upper=MAX_TENSORS)


def _columns(a: Any, b: Any) -> Any:
    return (a[:, None, :] * b[None, :, :]).reshape(a.shape[0] * b.shape[0], a.shape[1])


class KhatriRao(OperatorProperty):
    """Column k is the Kronecker product of the k-th columns: matrices (Mᵢ, N) give (ΠMᵢ, N)."""

    name = "khatri_rao"
    Param = KhatriRaoParam
    variadic = "num_args"

    def infer_shape(self, p: Any, s: Any) -> None:
        """Rows multiply, columns agree."""
        given = [s.get(name) for name in self.inputs(p)]
        for name, shape in zip(self.inputs(p), given, strict=True):
            if shape is not None and len(shape) != 2:
                raise s.error(f"{name}: expected 2 dimensions, got {shape}")
        columns = {shape[1] for shape in given if shape is not None} - {-1}
        if len(columns) > 1:
            raise s.error(f"expected matrices with the same number of columns, got {given}")
        if None not in given and columns:
            rows = [shape[0] for shape in given]
            s.assign("output", (-1 if -1 in rows else prod(rows), columns.pop()))

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """Pair by pair from the left."""
        return (np.array(reduce(_columns, inputs)),)


OPERATORS: tuple[type[OperatorProperty], ...] = (KhatriRao,)
