# SPDX-License-Identifier: Apache-2.0
"""Plans of layers and of what their gradients apply: every request on every output, on one and two threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import plans
from plans import ADD, NULL, WRITE, specs

from mx_core import operators
from mx_core.context import cpu
from mx_core.kernels import KernelCall
from mx_core.operator import Operator, ReferenceContext, gradient_of
from mx_core.plugins.specs import resolve
from mx_operators_cpu import upcast
from mx_operators_cpu.library import native
from mx_operators_cpu.register import ONEDNN_KERNELS, qualified

#: whether oneDNN has more than its reference for bfloat16 here
BFLOAT16_KERNELS = native.instruction_set() == "avx512" and os.environ.get(
    "ONEDNN_MAX_CPU_ISA", "ALL"
).upper() in ("ALL", "DEFAULT", *(f"AVX512_CORE{more}" for more in ("", "_VNNI", "_BF16", "_FP16", "_AMX")))


def run(
    plan: object,
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    req: Sequence[int] | None = None,
    *,
    threads: int = 2,
    is_train: bool = True,
    scalars: Sequence[float] = (),
) -> None:
    """Runs a plan once; every output is written unless `req` says otherwise."""
    req = [WRITE] * len(outputs) if req is None else req
    plans.run(plan, inputs, outputs, req, is_train=is_train, scalars=scalars, threads=threads)


def prepare(
    op: Operator,
    p: Any,
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    is_train: bool = True,
) -> object | None:
    """The oneDNN plan of an operator for arrays of these signatures; None when it declines.

    On a processor without instructions for bfloat16, what declines that type is computed between casts, as the
    framework chooses it.
    """
    _, make, supports = next(kernel for kernel in ONEDNN_KERNELS if kernel[0] == op.name)
    call = KernelCall(op, p, specs(inputs), specs(outputs), cpu(0), is_train)
    supported = supports is None or resolve(qualified(supports))(call)
    plan = resolve(qualified(make))(call) if supported else None
    if plan is None and not BFLOAT16_KERNELS and any(a.dtype.name == "bfloat16" for a in inputs):
        return upcast.make(call) if upcast.supported(call) else None
    return plan


class Near:
    """What an array must be near to; the limits are computed once for all that are compared with it."""

    def __init__(self, want: np.ndarray, rtol: float, atol: float) -> None:
        self.want, self.rtol, self.atol = np.asarray(want).astype(np.float64), rtol, atol
        limits = atol + rtol * np.abs(self.want)
        self._limits = np.where(np.isfinite(limits), limits, np.nan)  # nothing is within these

    def check(self, got: np.ndarray, what: Callable[[], str]) -> None:
        """Fails, and names `what`, where an element is further away than the tolerances allow."""
        with np.errstate(invalid="ignore"):
            away = got.astype(np.float64)
            away -= self.want
        if not (np.abs(away, out=away) <= self._limits).all():
            # It judges infinities and what is no number, too.
            np.testing.assert_allclose(
                got.astype(np.float64), self.want, rtol=self.rtol, atol=self.atol, err_msg=what()
            )


def compare(
    op: Operator,
    p: Any,
    inputs: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
    *,
    states: Sequence[np.ndarray] = (),
    is_train: bool = True,
    rtol: float = 1e-4,
    atol: float = 1e-5,
) -> None:
    """Runs the plan with every request on every output, on one and two threads.

    `expected` are the outputs; `states` the values of the last inputs afterwards.
    """
    plan = prepare(op, p, inputs, expected, is_train)
    assert plan is not None, f"{op.name} declined"
    n = len(expected)
    old = [np.full_like(e, 0.5) for e in expected]
    targets = [
        {NULL: Near(before, rtol, atol), WRITE: Near(want, rtol, atol), ADD: Near(before + want, rtol, atol)}
        for want, before in zip(expected, old, strict=True)
    ]
    kept = [Near(state, rtol, atol) for state in states]
    requests = [[WRITE] * n, [ADD] * n, [NULL] * n]
    requests += [[ADD if i == j else NULL for j in range(n)] for i in range(n) if n > 1]
    requests += [[NULL if i == j else WRITE for j in range(n)] for i in range(n) if n > 1]
    for req in requests:
        for threads in (1, 2):
            outputs = [o.copy() for o in old]
            given = [np.array(i) for i in inputs]
            run(plan, given, outputs, req, threads=threads, is_train=is_train, scalars=p.scalars)
            for got, target, r in zip(outputs, targets, req, strict=True):
                target[r].check(got, lambda req=req: f"{op.name} {p} requests {req}")
            for got, state in zip(given[len(given) - len(states) :], kept, strict=True):
                state.check(got, lambda: f"{op.name} {p} states")


def verify(
    name: str,
    attrs: Mapping[str, Any],
    inputs: Sequence[np.ndarray],
    *,
    is_train: bool = True,
    rtol: float = 1e-4,
    atol: float = 1e-5,
    gradient: bool = True,
) -> None:
    """Compares an operator and everything its gradient applies with the references."""
    op = operators.get(name)
    p = op.Param.parse(attrs, op=name)
    context = ReferenceContext(is_train=is_train, scalars=p.scalars)
    made = [np.ascontiguousarray(a) for a in op.reference(p, [np.array(i) for i in inputs], context)]
    outputs, states = made[: len(op.outputs(p))], made[len(op.outputs(p)) :]
    compare(op, p, inputs, outputs, states=states, is_train=is_train, rtol=rtol, atol=atol)
    if not gradient:
        return
    rng = np.random.default_rng(5)
    heads = [rng.standard_normal(o.shape).astype(o.dtype) for o in outputs]
    arrays = {"out_grad": heads, "input": inputs, "output": outputs}
    for node in gradient_of(op, p).nodes:
        backward = operators.get(node.op)
        kept = [arrays[e.kind][e.index] for e in node.inputs]
        expected = [np.ascontiguousarray(a) for a in backward.reference(node.params, kept, context)]
        scale = max(float(np.abs(e).max(initial=1)) for e in expected)
        compare(backward, node.params, kept, expected, is_train=is_train, rtol=rtol, atol=atol * scale)
