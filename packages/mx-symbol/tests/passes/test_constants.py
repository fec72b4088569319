# SPDX-License-Identifier: Apache-2.0
"""Constant folding: what reads no variable is computed in the first run alone."""

import numpy as np

from mx_core.graph import PREPARED
from mx_ndarray import nd
from mx_symbol import CachedOp, sym
from mx_symbol.passes.stages import trace


def prepared(net, shapes):
    """Names of the operators that are marked, and of the others."""
    (step,) = [s for s in trace(net, shapes) if s.name == "constants"]
    nodes = step.after.nodes
    return [[n.op.name for n in nodes if (PREPARED in n.attrs) is marked] for marked in (True, False)]


def constant_network():
    x = sym.Variable("x")
    return sym.broadcast_add(x, sym.exp(sym.arange(0, 4) * 0.5) + 1) * 2


def test_the_constant_part_is_marked():
    marked, other = prepared(constant_network(), {"x": (3, 4)})
    assert marked == ["_arange", "_mul_scalar", "exp", "_plus_scalar"]
    assert other == ["broadcast_add", "_mul_scalar"]


def test_draws_and_large_constants_are_not():
    x = sym.Variable("x")
    net = sym.broadcast_add(x + sym.random.uniform(shape=(3,)), sym.sum(sym.zeros((2048, 1024))))
    assert prepared(net, {"x": (3,)})[0] == []


def test_values_stay_over_runs_and_gradients_flow():
    x = np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)
    expected = (x + np.exp(np.arange(4) * 0.5) + 1) * 2
    executor = constant_network().simple_bind(x=(3, 4))
    for _ in range(3):
        executor.forward(is_train=True, x=x)
        np.testing.assert_allclose(executor.outputs[0].asnumpy(), expected, rtol=1e-6)
    executor.backward(nd.ones((3, 4)))
    np.testing.assert_array_equal(executor.grad_dict["x"].asnumpy(), np.full((3, 4), 2))


def test_a_constant_output_is_the_callers():
    executor = sym.Group([sym.zeros((2,)) + 3, sym.Variable("x")]).simple_bind(grad_req="null", x=(1,))
    executor.forward()[0][:] = 9
    assert executor.forward()[0].asnumpy().tolist() == [3, 3]


def test_cached_operators_keep_them_too():
    op = CachedOp(constant_network())
    x = nd.ones((3, 4))
    first, second = op(x).asnumpy(), op(x * 2).asnumpy()
    np.testing.assert_allclose(second - first, np.full((3, 4), 2), rtol=1e-5)
