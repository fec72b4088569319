# SPDX-License-Identifier: Apache-2.0
"""The gradient graph: right values, nothing superfluous."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mx_core.errors import ArgumentError
from mx_ndarray import nd
from mx_symbol import sym
from mx_symbol.graph import Entry
from mx_symbol.graph.gradient import CHAIN_FROM, gradient_graph


def operators_of(symbol):
    return [node.op.name for node in symbol.nodes if node.op is not None]


def graph_for(net, *names):
    table = {node.name: node for node in net.nodes if node.is_variable}
    heads = [Entry(sym.Variable(f"h{i}").nodes[0]) for i in range(len(net))]
    return gradient_graph(net.entries, heads, [table[name] for name in names])


def numeric(net, values, name, eps=1e-3):
    """Central differences of the sum of all outputs, in float64."""
    args = {k: nd.array(v, dtype="float64") for k, v in values.items()}
    executor = net.bind(None, args, grad_req="null")

    def total(x):
        args[name][:] = nd.array(x, dtype="float64")
        return sum(o.asnumpy().sum() for o in executor.forward(is_train=True))

    base = np.asarray(values[name], "float64")
    grad = np.zeros_like(base)
    for i in np.ndindex(*base.shape):
        step = np.zeros_like(base)
        step[i] = eps
        grad[i] = (total(base + step) - total(base - step)) / (2 * eps)
    args[name][:] = nd.array(base, dtype="float64")
    return grad


def analytic(net, values):
    args = {k: nd.array(v, dtype="float64") for k, v in values.items()}
    grads = {k: nd.zeros(v.shape, dtype="float64") for k, v in args.items()}
    executor = net.bind(None, args, grads)
    outputs = executor.forward(is_train=True)
    executor.backward([nd.ones(o.shape, dtype="float64") for o in outputs])
    return {k: g.asnumpy() for k, g in grads.items()}


def check(net, values):
    found = analytic(net, values)
    for name in values:
        np.testing.assert_allclose(found[name], numeric(net, values, name), rtol=1e-4, atol=1e-5)


RNG = np.random.default_rng(3)
A, B = RNG.uniform(0.5, 2, (2, 3)), RNG.uniform(0.5, 2, (2, 3))


def test_an_entry_used_often_gets_the_sum():
    a, b = sym.Variable("a"), sym.Variable("b")
    check(a * b + sym.exp(a) * a, {"a": A, "b": B})


@pytest.mark.parametrize("uses", [2, CHAIN_FROM - 1, CHAIN_FROM, CHAIN_FROM + 3])
def test_sums_of_many_contributions(uses):
    a = sym.Variable("a")
    net = sym.Group([a * float(i + 1) for i in range(uses)])
    check(net, {"a": A})
    names = [node.op.name for node in graph_for(net, "a").nodes]
    assert ("add_n" in names) == (uses < CHAIN_FROM)
    assert names.count("_grad_add") == (0 if uses < CHAIN_FROM else uses - 1)


def test_only_what_is_asked_for_is_differentiated():
    a, b = sym.Variable("a"), sym.Variable("b")
    net = sym.exp(sym.exp(a)) + sym.tanh(b)
    found = graph_for(net, "b")
    assert "_backward_exp" not in [node.op.name for node in found.nodes]
    assert len(found.nodes) < len(graph_for(net, "a", "b").nodes)


def test_a_zero_gradient_makes_no_nodes():
    a, b = sym.Variable("a"), sym.Variable("b")
    found = graph_for(sym.BlockGrad(sym.exp(a)) + b, "a", "b")
    assert found.grads[0] is None
    assert found.grads[1] is not None
    assert all("exp" not in node.op.name for node in found.nodes)


def test_an_unused_output_counts_as_zero():
    pair = sym.test_pair(sym.Variable("a"), name="p")
    check(pair[0], {"a": A})
    check(pair[1], {"a": A})
    check(pair, {"a": A})


def test_the_gradient_of_a_sum_is_passed_on_without_a_node():
    a, b = sym.Variable("a"), sym.Variable("b")
    found = graph_for(a + b, "a", "b")
    assert found.nodes == ()
    assert found.grads[0] == found.grads[1]
    check((a + b) * a - b, {"a": A, "b": B})


def test_a_loss_ignores_its_out_gradient():
    net = sym.LinearRegressionOutput(sym.Variable("a"), sym.Variable("label"), name="loss")
    found = graph_for(net, "a")
    inputs = {e.node.name for node in found.nodes for e in node.inputs if e.node.is_variable}
    assert "h0" not in inputs


def test_a_head_that_is_an_argument():
    a = sym.Variable("a")
    check(sym.Group([a, a * a]), {"a": A})


def test_gradient_symbols_can_be_differentiated_again():
    a = sym.Variable("a")
    first = (a * a * a).gradient("a")
    second = first.gradient("a")
    x = nd.array(A)
    np.testing.assert_allclose(first.eval(a=x)[0].asnumpy(), 3 * A**2, rtol=1e-5)
    np.testing.assert_allclose(second.eval(a=x)[0].asnumpy(), 6 * A, rtol=1e-5)
    with pytest.raises(ArgumentError, match="nope"):
        a.gradient("nope")


UNARY = ("exp", "tanh", "sigmoid", "square", "relu", "sqrt")


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_random_graphs_against_differences(data):
    terms = [sym.Variable("a"), sym.Variable("b"), sym.Variable("c")]
    for _ in range(data.draw(st.integers(1, 8))):
        left, right = (data.draw(st.sampled_from(terms)) for _ in range(2))
        kind = data.draw(st.sampled_from(["unary", "add", "mul", "scalar", "sub"]))
        if kind == "unary":
            # bounded and positive, so that differences of deep chains stay meaningful
            inner = getattr(sym, data.draw(st.sampled_from(UNARY)))(sym.sigmoid(left) + 0.5)
            terms.append(inner)
        elif kind == "scalar":
            terms.append(left * 0.5 + 1)
        else:
            terms.append({"add": left + right, "mul": left * right, "sub": left - right}[kind])
    net = sym.Group(terms[3:][-2:])
    values = {n: RNG.uniform(0.5, 1.5, (2, 2)) for n in net.list_arguments()}
    found = analytic(net, values)
    for name in values:
        expected = numeric(net, values, name, 1e-4)
        np.testing.assert_allclose(found[name], expected, rtol=1e-3, atol=1e-4 * (1 + np.abs(expected).max()))


ENDS = {
    "blocked": sym.BlockGrad,
    "positions": lambda loss: sym.argmax(loss, axis=1),
    "comparison": lambda loss: loss <= 0.5,
    "layer": lambda loss: sym.BlockGrad(sym.FullyConnected(loss, num_hidden=2)),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("loss", [sym.SoftmaxOutput, sym.SVMOutput])
def test_a_loss_has_its_gradient_behind_operators_without(loss, end):
    def gradient(net):
        executor = net.simple_bind(data=(2, 3), label=(2,))
        executor.arg_dict["data"][:] = nd.array([[1, 2, 3], [3, 1, -2]])
        executor.arg_dict["label"][:] = nd.array([2, 1])
        outputs = executor.forward(is_train=True)
        executor.backward([nd.ones_like(output) for output in outputs])
        return executor.grad_dict["data"].asnumpy()

    made = loss(sym.Variable("data"), sym.Variable("label"))
    expected = gradient(made)
    assert expected.any()
    np.testing.assert_array_equal(gradient(ENDS[end](made)), expected)
