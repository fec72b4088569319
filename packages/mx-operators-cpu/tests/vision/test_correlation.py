# SPDX-License-Identifier: Apache-2.0
"""Correlation against its reference, forward and backward."""

from __future__ import annotations

from typing import Any

import numpy as np
import plans
import pytest


@pytest.mark.parametrize("dtype", plans.FLOATS)
@pytest.mark.parametrize("multiply", [True, False])
@pytest.mark.parametrize("attrs", [
    {"max_displacement": 0}, {"max_displacement": 3, "pad_size": 3}, {"kernel_size": 3, "max_displacement": 2},
    {"kernel_size": 3, "max_displacement": 4, "stride1": 2, "stride2": 2, "pad_size": 4},
    {"max_displacement": 3, "stride1": 3, "stride2": 2, "pad_size": 5},
])  # fmt: skip
def test_fits(rng: np.random.Generator, dtype: str, multiply: bool, attrs: dict[str, Any]) -> None:
    attrs = {**attrs, "is_multiply": multiply}
    a, b = (plans.array(rng, (2, 3, 9, 12), dtype) for _ in range(2))
    plans.verify("Correlation", attrs, [a, b], rtol=plans.RTOL[dtype] * 4, threads=2)
    op = plans.operators.get("Correlation")
    shape = plans.call_of(op, op.Param.parse(attrs, op=op.name), [a, b]).outputs[0].shape
    head = plans.array(rng, shape, dtype)
    plans.verify("_backward_Correlation", attrs, [head, a, b], rtol=plans.RTOL[dtype] * 8, threads=2)


def test_no_images(rng: np.random.Generator) -> None:
    plans.verify("Correlation", {}, [plans.array(rng, (0, 3, 5, 5))] * 2)
