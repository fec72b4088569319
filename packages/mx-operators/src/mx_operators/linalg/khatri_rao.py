# SPDX-License-Identifier: Apache-2.0
"""Kronecker products column by column."""

from __future__ import annotations

from functools import reduce
from math import prod

import numpy as np

from mx_core.operator import Array, Arrays, Operator, Params, ReferenceContext, Shapes, required
from mx_core.operator.declaration import MAX_TENSORS


class KhatriRaoParam(Params):
    """How many."""

    num_args: int = required("how many matrices", lower=1, upper=MAX_TENSORS)


def _columns(a: Array, b: Array) -> Array:
    return (a[:, None, :] * b[None, :, :]).reshape(a.shape[0] * b.shape[0], a.shape[1])


class KhatriRao(Operator[KhatriRaoParam]):
    """Column k is the Kronecker product of the k-th columns: matrices (Mᵢ, N) give (ΠMᵢ, N)."""

    name = "khatri_rao"
    variadic = "num_args"
    differentiable = False
    custom_gradient = True

    def infer_shape(self, p: KhatriRaoParam, s: Shapes) -> None:
        given = {name: shape for name in self.inputs(p) if (shape := s.get(name)) is not None}
        for name, shape in given.items():
            if len(shape) != 2:
                raise s.error(f"{name}: expected 2 dimensions, got {shape}")
        columns = {shape[1] for shape in given.values()} - {-1}
        if len(columns) > 1:
            raise s.error(f"expected matrices with the same number of columns, got {[*given.values()]}")
        if len(given) == p.num_args and columns:
            rows = [shape[0] for shape in given.values()]
            s.assign("output", (-1 if -1 in rows else prod(rows), columns.pop()))

    def reference(self, p: KhatriRaoParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """Pair by pair from the left."""
        return (np.array(reduce(_columns, inputs)),)
