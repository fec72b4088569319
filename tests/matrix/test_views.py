# SPDX-License-Identifier: Apache-2.0
"""The whole way through `mx.nd`: inputs that are parts of larger arrays, results written into parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mx
from mx_core import dtypes, operators
from mx_core.testing.case import Case
from mx_core.testing.kernel_values import TOLERANCES
from mx_ndarray.operator_functions import function
from testkit import applications

SLOW_APPLICATIONS = 6


def part(array: Any) -> Any:
    """An NDArray with these values that lies behind the beginning of a larger one."""
    whole = mx.nd.zeros((3, *array.shape), dtype=array.dtype)
    whole[1] = mx.nd.array(array, dtype=array.dtype)
    return whole[1]


def judge(case: Case, found: list[Any], expected: list[Any], how: str) -> None:
    """Equal within what the coarsest type allows."""
    types = {dtypes.name(spec.dtype) for spec in (*case.specs, *case.outputs)}
    coarsest = next((t for t in ("bfloat16", "float16", "float32", "float64") if t in types), "")
    rtol, atol = TOLERANCES.get(coarsest, (0.0, 0.0))
    for i, (x, y) in enumerate(zip(found, expected, strict=True)):
        x, y = (np.asarray(a, np.float64) for a in (x.asnumpy(), y))
        near = applications.steepness(case) * atol * max(1.0, float(np.abs(y[np.isfinite(y)]).max(initial=0)))
        np.testing.assert_allclose(x, y, rtol, near, err_msg=f"{case.describe()}: {how}, output {i}")


def check(name: str, number: int, dtype: str) -> bool:
    """Calls an operator on parts, then into parts; False when there is no application."""
    case = applications.make(operators.get(name), number, dtype, most=512)
    if case is None or case.op.is_random or case.op.variadic or case.op.dynamic_output or not case.n_inputs:
        return False
    settings = case.params.attrs()
    if any(not spec.shape for spec in (*case.specs, *case.outputs)):
        return False  # an element of an array is an array of one element
    names = applications.named_inputs(case)
    if names is None:
        return False
    visible = case.op.num_visible_outputs(case.params)
    expected = case.reference()[:visible]

    def call(**more: Any) -> Any:
        inputs = dict(zip(names, map(part, case.inputs), strict=True))
        return function(name)(**inputs, **settings, **more)

    with mx.autograd.train_mode() if case.is_train else mx.autograd.predict_mode():
        result = call()
        judge(case, result if isinstance(result, list) else [result], expected, "from parts")
        into = [
            part(np.zeros(x.shape, dtypes.numpy_dtype(spec.dtype)))
            for x, spec in zip(expected, case.outputs, strict=False)
        ]
        call(out=into if len(into) > 1 else into[0])
        judge(case, into, expected, "into parts")
    return True


@pytest.mark.long
@pytest.mark.parametrize("seed", [applications.SEED])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_parts_of_arrays(dtype: str, seed: int) -> None:
    """One application of each operator."""
    with np.errstate(all="ignore"):
        done = sum(check(name, seed, dtype) for name in applications.all_operators())
    assert done > 300


@pytest.mark.slow
@pytest.mark.parametrize("name", applications.all_operators())
def test_parts_of_arrays_often(name: str) -> None:
    with np.errstate(all="ignore"):
        for dtype in ("float32", "float16", "int32", "uint8"):
            for number in range(1000, 1000 + SLOW_APPLICATIONS):
                check(name, number, dtype)
