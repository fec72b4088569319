# SPDX-License-Identifier: Apache-2.0
"""Kernels of a GPU, real or fake, against the operators' references."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mx_core import dtypes, kernels
from mx_core.testing.case import Case, make_case
from testkit.device_memory import GpuBench

#: parameters, and shapes or values of the inputs
Given = tuple[dict[str, Any], list[Any]]
NULL, WRITE, ADD = 0, 1, 3
RTOL = {"float16": 2e-2, "bfloat16": 6e-2, "float32": 1e-4, "float64": 1e-9}
#: the compiler takes most of the time on a fake GPU: there, only a slow test tries every type and case
FAKE = "FAKE_NVRTC_FOLDER" in os.environ and "FAKE_SWEEP" not in os.environ


def swept(test: Any) -> Any:
    """A test that only the slow run tries on a fake GPU; a real one always does."""
    return None if FAKE else test


def compare(
    bench: GpuBench,
    name: str,
    params: Mapping[str, Any],
    inputs: Sequence[Any],
    dtype: str = "float32",
    *,
    requests: Sequence[int] = (WRITE, ADD, NULL),
    exact: bool = False,
    span: tuple[float, float] = (-1.0, 1.0),
    is_train: bool = True,
    rtol: float | None = None,
) -> Case:
    """Outputs, auxiliary states and mutated inputs of one application, for several requests."""
    inputs = [np.ascontiguousarray(x) if isinstance(x, np.ndarray) else x for x in inputs]
    case = make_case(name, params, inputs, dtype=dtype, low=span[0], high=span[1], is_train=is_train)
    made = kernels.prepare(case.op, case.params, case.specs, case.outputs, bench.context, case.is_train)
    assert made.plan is not None
    n_aux = len(case.op.aux(case.params))
    changed = [*range(len(case.inputs) - n_aux, len(case.inputs)), *case.op.mutated_inputs(case.params)]
    before = [np.full(s.shape, 3, dtypes.numpy_dtype(s.dtype)) for s in case.outputs]
    floating = {dtypes.code(t) for t in RTOL}
    given = case.inputs
    if not exact:
        given = tuple(x.astype(np.float64) if dtypes.code(x.dtype) in floating else x for x in given)
    with np.errstate(all="ignore"):
        wide = [y.astype(np.float64) for y in case.reference(given)]
    widest = max((RTOL.get(dtypes.name(s.dtype), 0.0) for s in (*case.specs, *case.outputs)), default=0.0)
    tolerance = 0 if exact else widest if rtol is None else rtol
    for request in requests:
        found = bench.run(
            made.plan, case.inputs, before, [request] * len(before), case.params.scalars, changed
        )
        if request == NULL:
            found = found[: len(before)]
        for i, x in enumerate(found):
            output = i < len(before)
            wanted = before[i] if request == NULL else wide[i] + (3 if request == ADD and output else 0)
            np.testing.assert_allclose(
                x.astype(np.float64), wanted, rtol=tolerance, atol=tolerance,
                err_msg=f"{case.describe()} request {request}, result {i}",
            )  # fmt: skip
    return case
