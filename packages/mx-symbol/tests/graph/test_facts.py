# SPDX-License-Identifier: Apache-2.0
"""What a declaration says is asked once for all nodes that are alike, and never for one that has changed."""

from __future__ import annotations

import numpy as np
import pytest

from mx_core import operators
from mx_core.errors import ShapeError
from mx_ndarray import nd
from mx_symbol import sym
from mx_symbol.graph import facts as kept
from mx_symbol.graph.facts import KEPT, SIGNATURES, facts_of


def parameters(**values):
    op = operators.get("Convolution")
    return op, op.Param.parse(values, op="Convolution")


def test_equal_parameters_share_facts():
    one, other, different = (facts_of(*parameters(kernel=(3, 3), num_filter=n)) for n in (8, 8, 16))
    assert one is other and one is not different
    assert one.inputs == ("data", "weight", "bias")
    assert facts_of(*parameters(kernel=(3, 3), num_filter=8, no_bias=True)).inputs == ("data", "weight")


def test_shapes_are_inferred_once_per_signature_and_errors_name_the_node(monkeypatch):
    facts = facts_of(*parameters(kernel=(5, 3), num_filter=8))
    asked = []
    rule = type(facts.op).infer_shape
    monkeypatch.setattr(
        type(facts.op), "infer_shape", lambda self, p, s: (asked.append(1), rule(self, p, s))[1]
    )
    given = ((1, 3, 9, 9), None, None)
    first = facts.infer_shapes(given, (None,), "conv0")
    n = len(asked)
    assert facts.infer_shapes(given, (None,), "conv1") is first and len(asked) == n > 0
    for name in ("conv2", "conv3"):
        with pytest.raises(ShapeError, match=name):
            facts.infer_shapes(((1, 3, 9, 9), (8, 4, 5, 3), None), (None,), name)


def test_the_memory_of_signatures_is_bounded():
    facts = facts_of(*parameters(kernel=(1, 7), num_filter=8))
    for height in range(1, 2 * SIGNATURES):
        facts.infer_shapes(((1, 3, height, 9), None, None), (None,), "conv0")
    assert len(facts._shapes) <= SIGNATURES


def test_the_memory_of_parameters_is_bounded():
    op, first = parameters(kernel=(1, 7), num_filter=8)
    for _ in range(KEPT + 10):
        facts_of(op, first.replace(num_filter=8))
    assert len(kept._by_identity) <= KEPT
    assert facts_of(op, first) is facts_of(op, first.replace(num_filter=8))


def test_parameters_that_are_replaced_are_asked_again():
    node = sym.Convolution(sym.Variable("x"), kernel=(3, 3), num_filter=8, name="c").entries[0].node
    assert len(node.input_names) == 3
    node.params = node.params.replace(no_bias=True)
    assert len(node.input_names) == 2


def test_a_gradient_whose_shape_only_the_argument_tells_gets_it():
    net = sym.FullyConnected(sym.Variable("x"), num_hidden=3, name="fc")
    executor = net.simple_bind(x=(2, 5))
    executor.forward(is_train=True)
    executor.backward(nd.ones((2, 3)))
    assert executor.grad_dict["fc_weight"].shape == (3, 5)
    np.testing.assert_array_equal(executor.grad_dict["fc_bias"].asnumpy(), np.full(3, 2.0))
