# SPDX-License-Identifier: Apache-2.0
"""Runs the kernels of applications of every operator, and prints which allocate.

    python of_operators.py TYPE ELEMENTS COUNT

with the element type of the first input, its elements, about, and the number of applications of each operator.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
from counting import Counter, count

from mx_core import dtypes, operators
from mx_core.context import cpu
from mx_core.errors import MXNetError
from mx_core.kernels import TensorSpec, prepare
from mx_core.testing.case import Case
from testkit import applications


def _specs(arrays: Any) -> list[TensorSpec]:
    return [TensorSpec(a.shape, dtypes.code(a.dtype)) for a in arrays]


def _buffers(arrays: Any) -> list[Any]:
    return [(a.view(np.uint16), dtypes.code(a.dtype)) if a.dtype.kind == "V" else a for a in arrays]


def allocating(counter: Counter, case: Case) -> list[dict[str, Any]] | None:
    """What the kernel of an application allocates; None where only a reference computes it."""
    inputs = [np.array(x) for x in case.inputs]
    outputs: list[Any] = [
        np.zeros(spec.shape, dtypes.numpy_dtype(spec.dtype))
        if -1 not in spec.shape and spec.shape is not None
        else spec.dtype
        for spec in case.outputs
    ]
    try:
        made = prepare(case.op, case.params, _specs(inputs), list(case.outputs), cpu(), case.is_train)
    except MXNetError:
        return None
    if made.plan is None or made.plugin != "operators_cpu":
        return None
    given = [x if isinstance(x, int) else _buffers([x])[0] for x in outputs]
    return count(counter, made.plan, _buffers(inputs), given, case.params.scalars, case.is_train)


def main(dtype: str, elements: int, n: int) -> None:
    counter, found, ran = Counter(), {}, 0
    for name in applications.all_operators():
        for number in range(n):
            case = applications.make(operators.get(name), number, dtype, most=elements)
            findings = None if case is None else allocating(counter, case)
            if findings is None:
                continue
            ran += 1
            if findings:
                found[f"{name} {number}: {case.describe()}"] = findings
    print(json.dumps({"ran": ran, "found": found}))


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
