# SPDX-License-Identifier: Apache-2.0
"""Native functions of layers take the tensors of a call, or pairs of shape and type code."""

from __future__ import annotations

import pytest

from mx_core import dtypes
from mx_core.kernels import TensorSpec
from mx_operators_cpu.library import native

FLOAT, COMPLEX = dtypes.code("float32"), 13


@pytest.mark.parametrize("dtype", [FLOAT, COMPLEX])
@pytest.mark.parametrize("layout", [0, 7])
def test_tensors_of_a_call(dtype: int, layout: int) -> None:
    """Those that are not row-major or not real have no kernel."""
    inputs = (TensorSpec((3, 8), dtype, layout), TensorSpec((4, 8), dtype), TensorSpec((4,), dtype))
    plan = native.fully_connected(inputs, (TensorSpec((3, 4), dtype),))
    assert (plan is not None) is (dtype == FLOAT and layout == 0)


def test_pairs() -> None:
    pairs = [((3, 8), FLOAT)]
    given = {"view": (3, 8), "axis": 1, "logarithm": False, "temperature": 1.0}
    assert native.softmax(pairs, pairs, **given) is not None  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="incompatible function arguments"):
        native.softmax([(3, 8)], pairs, **given)  # type: ignore[arg-type, list-item]
