# SPDX-License-Identifier: Apache-2.0
"""Matrix products inside composites, and what is one: linalg syrk."""

from __future__ import annotations

from math import prod
from typing import Any

from mx_core import dtypes
from mx_core.kernels import KernelCall
from mx_operators_cpu.composite import Composite, runtime, same, traced
from mx_operators_cpu.library import native
from mx_operators_cpu.signature import accumulator, floating

_FLOAT = dtypes.code("float32")


def product(
    made: Composite,
    kind: int,
    a: int,
    b: int,
    to: int,
    sizes: tuple[int, int, int, int],
    transposed: tuple[bool, bool],
) -> None:
    """Appends op(a) · op(b) of every matrix of a batch: oneDNN's in float32, loops in float64.

    Parameters
    ----------
    kind : element type of all three
    sizes : batch, m, k, n of (m, k) times (k, n)
    transposed : which of a and b are transposed
    """
    batch, m, k, n = sizes
    row, column = (m, k) if not transposed[0] else (k, m), (k, n) if not transposed[1] else (n, k)
    given, result = [((batch, *row), kind), ((batch, *column), kind)], [((batch, m, n), kind)]
    named: dict[str, Any] = {
        "batch": batch, "m": m, "k": k, "n": n, "transpose_a": transposed[0], "transpose_b": transposed[1],
    }  # fmt: skip
    plan = None
    if kind == _FLOAT:
        plan = native.matmul(given, result, scaled=False, **named)
    made.run(native.product_plan(given, result, **named) if plan is None else plan, [a, b], [to])


def own_type(made: Composite, call: KernelCall, source: int, kind: int) -> int:
    """An input in the type that is computed in."""
    spec = call.inputs[source]
    if spec.dtype == kind:
        return source
    found = made.temporary(spec.shape, kind)
    made.evaluate(traced(same, 1), [source], [found])
    return found


def _scaled(x: Any, alpha: Any) -> Any:
    return x * alpha


def syrk(call: KernelCall) -> object:
    """alpha · A·Aᵀ, or Aᵀ·A."""
    p: Any = call.params
    shape, kind = call.inputs[0].shape, accumulator(call.inputs[0].dtype)
    if not floating(call) or prod(shape) == 0:
        return None
    made = Composite(call)
    n, k = (shape[-1], shape[-2]) if p.transpose else shape[-2:]
    a, found = own_type(made, call, 0, kind), made.temporary(call.outputs[0].shape, kind)
    product(made, kind, a, a, found, (prod(shape[:-2]), n, k, n), (p.transpose, not p.transpose))
    made.evaluate(traced(_scaled, 1, 1), [found], [made.output(0)], [runtime(0)])
    return made.plan()
