# SPDX-License-Identifier: Apache-2.0
"""What is not known when shapes are inferred is left open; what is known is checked."""

from __future__ import annotations

import pytest

from mx_core import operators
from mx_core.errors import MXNetError
from mx_core.operator import infer_shapes


def test_a_slice_is_checked_against_the_shape_once_that_is_known() -> None:
    op = operators.get("_slice_assign_scalar")
    p = op.Param.parse({"scalar": 1.0, "begin": (0, 0), "end": (1, 2)})
    assert infer_shapes(op, p, [None]) == ((None,), (None,))
    assert infer_shapes(op, p, [(3, 4)]) == (((3, 4),), ((3, 4),))
    with pytest.raises(MXNetError, match="_slice_assign_scalar"):
        infer_shapes(op, p, [(3,)])


def test_one_hot_rows_have_two_axes() -> None:
    op = operators.get("_onehot_encode")
    p = op.Param.parse({})
    assert infer_shapes(op, p, [None, None]) == ((None, None), (None,))
    assert infer_shapes(op, p, [None, (3, 4)]) == (((3,), (3, 4)), ((3, 4),))
    with pytest.raises(MXNetError, match="rhs: expected 2 dimensions"):
        infer_shapes(op, p, [None, (3, 4, 5)])
