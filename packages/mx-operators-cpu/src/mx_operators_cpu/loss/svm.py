# SPDX-License-Identifier: Apache-2.0
"""The gradient of hinge losses."""

from __future__ import annotations

from math import prod
from typing import Any

from mx_core import expression as X
from mx_core.kernels import KernelCall
from mx_operators_cpu.composite import Composite, runtime, traced
from mx_operators_cpu.library import native
from mx_operators_cpu.signature import accumulator, real


def _widened(label: Any) -> Any:
    return label


def _linear(own: Any, y: Any, margin: Any, factor: Any) -> Any:
    side = 2.0 * own - 1.0
    return X.where(margin - side * y > 0.0, -side, 0.0) * factor


def _squared(own: Any, y: Any, margin: Any, factor: Any) -> Any:
    side = 2.0 * own - 1.0
    return -side * (2.0 * X.maximum(margin - side * y, 0.0)) * factor


def backward_svm(call: KernelCall) -> object:
    """+1 for the label's class, −1 for the others, where the margin is violated."""
    p: Any = call.params
    label, y = call.inputs
    if not real(call) or len(y.shape) != 2 or prod(y.shape) == 0:
        return None
    n, classes = y.shape
    dtype = accumulator(y.dtype)
    made = Composite(call)
    wide, own = made.temporary((n,), dtype), made.temporary((n, classes), dtype)
    made.evaluate(traced(_widened, 1, 0), [0], [wide])
    made.run(
        native.one_hot_plan([((n,), dtype)], [((n, classes), dtype)], classes), [wide], [own], [1.0, 0.0]
    )
    rule = _linear if p.use_linear else _squared
    made.evaluate(traced(rule, 2, 2), [own, 1], [made.output(0)], [runtime(0), runtime(1)])
    return made.plan()
