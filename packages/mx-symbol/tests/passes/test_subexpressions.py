# SPDX-License-Identifier: Apache-2.0
"""Common subexpressions: computed once, unless they draw or count."""

from math import inf

import pytest

from mx_core.context import cpu
from mx_ndarray import nd
from mx_symbol import sym
from mx_symbol.passes.stages import trace


def counts(net, name, shapes, **options):
    """Nodes before and after a pass."""
    (step,) = [s for s in trace(net, shapes, **options) if s.name == name]
    return len(step.before.nodes), len(step.after.nodes)


def test_equal_branches_are_computed_once():
    x, w = sym.Variable("x"), sym.Variable("w")
    branches = [sym.tanh(sym.FullyConnected(x, w, num_hidden=3, no_bias=True)) * 2 for _ in range(3)]
    net = branches[0] + branches[1] + branches[2]
    assert counts(net, "cse", {"x": (2, 4)}) == (11, 5)


def test_other_parameters_are_other_values():
    x = sym.Variable("x")
    assert counts((x * 2) + (x * 3) + (x * 2), "cse", {"x": (2,)}) == (5, 4)


def test_random_draws_and_statistics_stay_apart():
    x = sym.Variable("x")
    draws = sym.random.uniform(shape=(2,)) - sym.random.uniform(shape=(2,))
    assert counts(draws, "cse", {}) == (3, 3)
    gamma, beta, mean, var = (sym.Variable(n) for n in ("g", "b", "m", "v"))
    norms = [sym.BatchNorm(x, gamma, beta, mean, var) for _ in range(2)]
    assert counts(norms[0] + norms[1], "cse", {"x": (2, 3)}) == (3, 3)


def test_gradients_share_what_forward_has():
    x, w = sym.Variable("x"), sym.Variable("w")
    net = sym.sin(x * w) + sym.cos(sym.elemwise_mul(w, x)) * sym.exp(w)
    before, after = counts(net, "cse-program", {"x": (3,)}, is_train=True)
    assert after <= before


@pytest.mark.parametrize("fuse", [False, True])
def test_divided_by_zero_and_by_minus_zero(fuse):
    x = sym.Variable("x")
    quotients = [x / 0.0, x / -0.0]
    if fuse:
        quotients = [sym.exp(q) for q in quotients]
    executor = sym.Group(quotients).bind(cpu(), {"x": nd.array([1.0, 2.0])})
    found = [array.asnumpy().tolist() for array in executor.forward()]
    assert found == [[inf, inf], [0.0, 0.0] if fuse else [-inf, -inf]]


def test_the_gradient_by_a_divisor_of_another_sign():
    x = sym.Variable("x")
    for divisor, expected in ((0.0, inf), (-0.0, -inf)):
        grad = nd.zeros((2,))
        executor = (x / divisor).bind(cpu(), {"x": nd.array([1.0, 2.0])}, args_grad={"x": grad})
        executor.forward(is_train=True)
        executor.backward(nd.ones((2,)))
        assert grad.asnumpy().tolist() == [expected] * 2
