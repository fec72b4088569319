# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from mx_core.errors import DTypeError, ShapeError
from mx_core.operator import infer_shapes, infer_types


def test_equal_shapes_flow_both_ways(ops: Any) -> None:
    op = ops["test_quadratic"]
    assert infer_shapes(op, op.Param(), [(2, -1)], [(-1, 3)]) == (((2, 3),), ((2, 3),))
    assert infer_shapes(op, op.Param(), [None]) == ((None,), (None,))


def test_reverse_rule(ops: Any) -> None:
    op = ops["test_halves"]
    assert infer_shapes(op, op.Param(), [(4, -1)], [(-1, 3)]) == (((4, 6),), ((4, 3),))


def test_contradiction_has_both_shapes(ops: Any) -> None:
    op = ops["test_quadratic"]
    with pytest.raises(ShapeError, match=r"test_quadratic 'q0'.*\(3,\).*\(2,\)|\(2,\).*\(3,\)"):
        infer_shapes(op, op.Param(), [(2,)], [(3,)], node="q0")


def test_zero_is_a_size(ops: Any) -> None:
    op = ops["test_product"]
    assert infer_shapes(op, op.Param(), [(0, 1), (1, 5)])[1] == ((0, 5),)


def test_broadcast_of_partial_shapes(ops: Any) -> None:
    op = ops["test_product"]
    assert infer_shapes(op, op.Param(), [(-1, 3), (2, 1)])[1] == ((2, 3),)
    assert infer_shapes(op, op.Param(), [(-1, 3), (1, 1)])[1] == ((-1, 3),)
    with pytest.raises(ShapeError, match=r"\[2,3\] \[4\]"):
        infer_shapes(op, op.Param(), [(2, 3), (4,)])


def test_number_of_inputs(ops: Any) -> None:
    with pytest.raises(ShapeError, match="expected 2 inputs"):
        infer_shapes(ops["test_product"], ops["test_product"].Param(), [(1,)])


def test_types(ops: Any) -> None:
    op = ops["test_product"]
    assert infer_types(op, op.Param(), [None, 1]) == ((1, 1), (1,))
    with pytest.raises(DTypeError, match="float64.*float32|float32.*float64"):
        infer_types(op, op.Param(), [0, 1])
