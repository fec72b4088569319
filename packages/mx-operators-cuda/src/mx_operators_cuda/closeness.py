# SPDX-License-Identifier: Apache-2.0
"""Comparing two arrays as a whole on a GPU."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from mx_core import expression as X
from mx_core.expression import Opcode
from mx_operators_cuda import folds
from mx_operators_cuda.codegen.rows import At
from mx_operators_cuda.folds import Rows
from mx_operators_cuda.launch import make_plan

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall


def allclose(call: KernelCall) -> Any:
    """1 if |a - b| is at most atol + rtol |b| everywhere, else 0."""
    p: Any = call.params
    if not folds.floating(call.inputs) or any(s.layout for s in call.outputs):
        return None

    def close(a: Any, b: Any, rtol: Any, atol: Any, k: Any, n: Any) -> Any:
        finite = X.logical_and(X.isfinite(a), X.isfinite(b))
        alike = X.where(finite, abs(a - b) <= atol + rtol * abs(b), a == b)
        return X.logical_or(alike, X.logical_and(X.isnan(a), X.isnan(b))) if p.equal_nan else alike

    steps, scratch = folds.launches(
        call.op.name, Rows.blocks(1, prod(call.inputs[0].shape), 1),
        [folds.read(i, s) for i, s in enumerate(call.inputs)], [folds.write(0, call.outputs[0], At.ROW)],
        [[(Opcode.MINIMUM, close)]], None, lambda a, b, rtol, atol, k, n, least: X.minimum(least, 1.0), scalars=2,
    )  # fmt: skip
    return make_plan(
        call.op.name, call.context, call.inputs, call.outputs, steps, n_scalars=2, scratch=scratch
    )
