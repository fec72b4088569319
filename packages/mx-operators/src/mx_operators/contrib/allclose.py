# SPDX-License-Identifier: Apache-2.0
"""Comparing two arrays as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mx_core.operator import OperatorProperty, opt, param
from mx_core.operator.property import ReferenceContext
from mx_operators.nn.base import wide


@param
class AllcloseParam:
    """Tolerances."""

    rtol: float = opt(1e-5, "tolerance relative to b", runtime=True)
    atol: float = opt(1e-8, "absolute tolerance", runtime=True)
    equal_nan: bool = opt(True, "NaN equals NaN")


class Allclose(OperatorProperty):
    """1 if |a − b| ≤ atol + rtol·|b| everywhere, else 0: one uint8."""

    name = "_contrib_allclose"
    Param = AllcloseParam
    arguments = ("a", "b")

    def infer_shape(self, p: Any, s: Any) -> None:
        """A scalar."""
        s.unify(["a", "b"])
        s.assign("output", ())

    def infer_type(self, p: Any, t: Any) -> None:
        """uint8."""
        t.unify(["a", "b"])
        t.assign("output", np.uint8)

    def reference(self, p: Any, inputs: Sequence[Any], ctx: ReferenceContext) -> Sequence[Any]:
        """NumPy's."""
        a, b = (wide(x) for x in inputs)
        with np.errstate(invalid="ignore"):
            return (np.array(np.allclose(a, b, p.rtol, p.atol, p.equal_nan), np.uint8),)


OPERATORS: tuple[type[OperatorProperty], ...] = (Allclose,)
