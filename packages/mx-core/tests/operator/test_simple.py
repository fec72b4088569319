# SPDX-License-Identifier: Apache-2.0
from typing import Any

import numpy as np
import pytest

from mx_core import operators
from mx_core.errors import PluginError
from mx_core.operator import Entry, ReferenceContext, SimpleOp, gradient_of, infer_shapes


def test_reference_evaluates_the_expression(ops: Any) -> None:
    op = ops["test_quadratic"]
    x = np.array([1.0, 2.0], np.float32)
    (y,) = op.reference(op.Param(a=2, b=1, c=3), [x], ReferenceContext())
    np.testing.assert_array_equal(y, [6, 13])


def test_runtime_scalars_share_one_expression(ops: Any) -> None:
    op = ops["test_quadratic"]
    assert op.expression(op.Param(a=1)) is op.expression(op.Param(a=2))
    assert op.expression(op.Param()).n_scalars == 3


def test_argument_names_say_what_backward_keeps(ops: Any) -> None:
    keep = gradient_of(ops["test_tanh"], ops["test_tanh"].Param()).reads
    assert keep == {Entry("out_grad", 0), Entry("output", 0)}
    q = ops["test_quadratic"]
    assert gradient_of(q, q.Param()).reads == {Entry("out_grad", 0), Entry("input", 0)}


def test_backward_operator_comes_along_and_computes(ops: Any) -> None:
    op = ops["test_quadratic"]
    p = op.Param(a=2, b=1)
    node = gradient_of(op, p).nodes[0]
    assert (node.op, node.params) == ("_backward_test_quadratic", p)
    backward = operators.get(node.op)
    g, x = np.array([1.0, 10.0]), np.array([1.0, 2.0])
    np.testing.assert_array_equal(backward.reference(p, [g, x], ReferenceContext())[0], [5, 90])


def test_second_order(ops: Any) -> None:
    op = ops["test_quadratic"]
    p = op.Param(a=3)
    second = gradient_of(operators.get("_backward_test_quadratic"), p)
    node = second.nodes[0]
    run = operators.get(node.op)
    head, g, x = np.ones(2), np.array([1.0, 2.0]), np.array([5.0, 6.0])
    by_g, by_x = run.reference(p, [head, g, x], ReferenceContext())
    np.testing.assert_array_equal(by_g, 6 * x)
    np.testing.assert_array_equal(by_x, 6 * g)


def test_broadcast_gradient_sums_back_and_needs_only_the_shape(ops: Any) -> None:
    op = ops["test_product"]
    made = gradient_of(op, op.Param())
    assert [node.op for node in made.nodes] == ["_backward_test_product", "_unbroadcast", "_unbroadcast"]
    assert made.shape_reads == frozenset()  # both inputs are read as values
    shapes = infer_shapes(op, op.Param(), [(2, 1), (3,)])
    assert shapes[1] == ((2, 3),)


def test_wrong_gradient_arguments_are_refused() -> None:
    class Wrong(SimpleOp):
        name = "test_wrong"

        def function(self, p: Any, data: Any) -> Any:
            return data

        def gradient_function(self, p: Any, data: Any) -> Any:
            return data

    with pytest.raises(PluginError, match="out_grad first"):
        Wrong().backward_arguments(Wrong.Param())


def test_alias_and_hint(ops: Any) -> None:
    assert operators.get("test_q") is ops["test_quadratic"]
    with pytest.raises(AttributeError, match="test_quadratic"):
        operators.get("test_quadratik")


def test_backward_operators_are_called_by_the_names_of_their_inputs(ops: Any) -> None:
    backward = operators.get("_backward_test_tanh")
    assert set(backward.inputs(backward.Param())) <= set(backward.arguments)
    second = operators.get("_backward_backward_test_tanh")
    assert set(second.inputs(second.Param())) <= set(second.arguments)
