# SPDX-License-Identifier: Apache-2.0
"""Casts of mixed precision: which types the results have."""

from __future__ import annotations

import numpy as np
import pytest

from mx_core import dtypes, operators
from mx_core.operator import ReferenceContext


@pytest.mark.parametrize(
    ("given", "wide", "narrow"),
    [
        (("float32", "float16"), "float32", "float16"),
        (("bfloat16", "float32"), "float32", "bfloat16"),
        (("bfloat16", "float64", "float32"), "float64", "bfloat16"),
        (("bfloat16", "bfloat16"), "bfloat16", "bfloat16"),
        (("bfloat16", "float16"), "float32", "bfloat16"),
        (("float16", "bfloat16", "float32"), "float32", "float16"),
    ],
)
def test_the_common_type(given: tuple[str, ...], wide: str, narrow: str) -> None:
    op = operators.get("amp_multicast")
    arrays = [np.full(2, 1.5).astype(dtypes.numpy_dtype(dtypes.code(name))) for name in (*given, "int32")]
    for cast_narrow, expected in ((False, wide), (True, narrow)):
        parameters = {"num_outputs": len(arrays), "cast_narrow": cast_narrow}
        *floats, counts = op.reference(op.Param.parse(parameters, op=op.name), arrays, ReferenceContext())
        assert [dtypes.name(dtypes.code(made.dtype)) for made in floats] == [expected] * len(given)
        assert all((made.astype(np.float64) == 1.5).all() for made in floats)
        assert counts.dtype == np.int32 and (counts == 1).all()
