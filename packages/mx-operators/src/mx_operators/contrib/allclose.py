# SPDX-License-Identifier: Apache-2.0
"""Comparing two arrays as a whole."""

from __future__ import annotations

import numpy as np

from mx_core.operator import Arrays, Operator, Params, ReferenceContext, Shapes, opt
from mx_operators.nn.base import wide


class AllcloseParam(Params):
    """Tolerances."""

    rtol: float = opt(1e-5, "tolerance relative to b", runtime=True)
    atol: float = opt(1e-8, "absolute tolerance", runtime=True)
    equal_nan: bool = opt(True, "NaN equals NaN")


class Allclose(Operator[AllcloseParam]):
    """1 if |a − b| ≤ atol + rtol·|b| everywhere, else 0: one uint8."""

    name = "_contrib_allclose"
    arguments = ("a", "b")
    fixed_types = {"output": "uint8"}
    differentiable = False

    def infer_shape(self, p: AllcloseParam, s: Shapes) -> None:
        s.unify(["a", "b"])
        s.assign("output", ())

    def reference(self, p: AllcloseParam, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        a, b = (wide(x) for x in inputs)
        with np.errstate(invalid="ignore"):
            return (np.array(np.allclose(a, b, p.rtol, p.atol, p.equal_nan), np.uint8),)
