# SPDX-License-Identifier: Apache-2.0
"""What `autograd.get_symbol` shows of calls of a CachedOp."""

import json

import numpy as np

from mx_ndarray import autograd, nd
from mx_symbol import CachedOp, sym


def test_operators_stand_in_the_place_of_a_call():
    a, b = sym.Variable("a"), sym.Variable("b")
    both = CachedOp(sym.Group([a * b, sym.sum(b, axis=1)]))
    x, y = nd.array([[1, 2], [3, 4]]), nd.array([[5, 6], [7, 8]])
    for each in (x, y):
        each.attach_grad()
    with autograd.record():
        product, total = both(x, y)
        again, _ = both(product + 1, y)
        result = again + total.reshape((2, 1)) + 3
    graph = autograd.get_symbol(result)
    ops = [node["op"] for node in json.loads(graph.tojson())["nodes"] if node["op"] != "null"]
    assert ops == [
        "elemwise_mul", "_plus_scalar", "elemwise_mul", "sum", "Reshape", "broadcast_add", "_plus_scalar",
    ]  # fmt: skip
    assert graph.list_arguments() == ["var0", "var1"]
    [computed] = graph.eval(var0=x, var1=y)
    np.testing.assert_array_equal(computed.asnumpy(), result.asnumpy())
    result.backward()


def test_states_and_arrays_without_gradients():
    net = CachedOp(sym.BatchNorm(sym.Variable("data"), name="bn", fix_gamma=False))
    data, states = nd.random.normal(shape=(4, 3)), [nd.ones(3), nd.zeros(3), nd.zeros(3), nd.ones(3)]
    states[0].attach_grad()
    with autograd.record():
        result = net(data, *states) * 2
    graph = autograd.get_symbol(result)
    assert len(graph.list_arguments()) == 3 and len(graph.list_auxiliary_states()) == 2
    assert graph.infer_shape(**{graph.list_arguments()[0]: (4, 3)})[1] == [(4, 3)]
