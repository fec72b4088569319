# SPDX-License-Identifier: Apache-2.0
"""Attention and its gradients in a training step as two operators: where they are found, and that results stay."""

import numpy as np
import pytest

from mx_ndarray import nd
from mx_symbol import sym
from mx_symbol.graph.ir import Graph
from testkit.attention_graphs import HEADS, attention, cut, joined, variables

BATCH, LENGTH, MEMORY, DEPTH, WIDTH = 2, 5, 7, 4, 6
BOTH = ["_fused_attention_training", "_fused_attention_gradient"]


@pytest.fixture(autouse=True)
def kernels(monkeypatch):
    """As if the processor had kernels: the references run."""
    monkeypatch.setattr(Graph, "has_kernel", lambda self, op, *given: "attention" in op.name)


def run(net, passes, wanted):
    shapes = {"q": (BATCH, LENGTH, HEADS * DEPTH), "k": (BATCH, MEMORY, HEADS * DEPTH)}
    shapes["v"] = (BATCH, MEMORY, HEADS * WIDTH)
    shapes = {name: shapes[name] for name in net.list_arguments()}
    requests = {name: wanted if isinstance(wanted, str) else wanted[name] for name in shapes}
    executor = net.simple_bind(grad_req=requests, passes=passes, **shapes)
    rng = np.random.default_rng(0)
    for array in executor.arg_dict.values():
        array[:] = rng.standard_normal(array.shape)
    for array in executor.grad_dict.values():
        if array is not None:
            array[:] = 2
    outputs = executor.forward(is_train=True)
    executor.backward([nd.array(rng.standard_normal(y.shape)) for y in outputs])
    gradients = [array.asnumpy() for array in executor.grad_dict.values() if array is not None]
    return [node.op.name for node in executor.nodes(True)], [y.asnumpy() for y in outputs] + gradients


def same(net, wanted="write"):
    """Operators that run; results are those without any pass."""
    names, got = run(net, None, wanted)
    for y, expected in zip(got, run(net, "none", wanted)[1], strict=True):
        np.testing.assert_allclose(y, expected, rtol=2e-5, atol=2e-5)
    return names


@pytest.mark.parametrize("wanted", ["write", "add"])
def test_heads_stay_where_they_are(wanted):
    assert [n for n in same(joined(attention(*map(cut, variables()))), wanted) if n != "_copy"] == BOTH


@pytest.mark.parametrize(
    ("scale", "softmax"),
    [
        (lambda x: x, {}), (lambda x: x / 3, {}), (lambda x: x * -0.5, {"axis": 2}),
        (lambda x: 0.5 * x, {"temperature": 2.0}),
    ],
)  # fmt: skip
def test_scales_and_temperatures(scale, softmax):
    assert same(attention(*variables(), scale=scale, **softmax)) == BOTH


def test_heads_that_are_not_joined_behind():
    names = same(attention(*map(cut, variables())))
    assert [n for n in names if "attention" in n] == BOTH and names.count("transpose") == 6


def test_heads_of_other_extents_are_not_taken_for_the_usual_ones():
    heads = sym.transpose(
        sym.reshape(sym.Variable("q"), shape=(BATCH, 2 * LENGTH, HEADS, 2)), axes=(0, 2, 1, 3)
    )
    odd = sym.reshape(heads, shape=(BATCH * HEADS, LENGTH, DEPTH))
    names = same(joined(attention(odd, *map(cut, variables()[1:]))))
    assert [n for n in names if "attention" in n] == BOTH and names.count("transpose") == 8


def test_an_input_that_is_read_three_times():
    names = same(joined(attention(*[cut(sym.Variable("q"))] * 3)))
    assert [n for n in names if "attention" in n] == BOTH and "batch_dot" not in names


def test_among_other_layers():
    layers = [sym.FullyConnected(x, num_hidden=HEADS * DEPTH, flatten=False, no_bias=True, name=n)
              for x, n in zip(variables(), "abc", strict=True)]  # fmt: skip
    net = sym.tanh(joined(attention(*map(cut, layers))))
    arguments = {**dict.fromkeys("qkv", (BATCH, LENGTH, 8))}
    found = []
    for passes in (None, "none"):
        executor = net.simple_bind(passes=passes, **arguments)
        rng = np.random.default_rng(0)
        for array in executor.arg_dict.values():
            array[:] = rng.uniform(-1, 1, array.shape)
        executor.forward(is_train=True)
        executor.backward([nd.ones((BATCH, LENGTH, HEADS * DEPTH))])
        found.append([array.asnumpy() for array in executor.grad_dict.values()])
        names = [node.op.name for node in executor.nodes(True)]
        assert [n for n in names if "attention" in n] == (BOTH if passes is None else [])
        assert (names.count("transpose") == 0) == (passes is None)
    for got, expected in zip(*found, strict=True):
        np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("scaled_before", [True, False])
def test_casts_around_the_softmax(scaled_before):
    """As mixed precision makes them; without them the softmax of a float32 product is the same one."""
    halves = [sym.Cast(x, dtype="float16") for x in variables()]
    scores = sym.batch_dot(*halves[:2], transpose_b=True)
    scores = (
        sym.Cast(scores * 0.5, dtype="float32") if scaled_before else sym.Cast(scores, dtype="float32") * 0.5
    )
    net = sym.batch_dot(sym.Cast(sym.softmax(scores), dtype="float16"), halves[2])
    net = sym.Cast(net, dtype="float32")
    names, got = run(net, None, "write")
    assert [n for n in names if "attention" in n or n in ("softmax", "batch_dot")] == BOTH
    for y, expected in zip(got, run(net, "none", "write")[1], strict=True):
        np.testing.assert_allclose(y, expected, rtol=0.01, atol=0.02)
    low = sym.softmax(sym.Cast(sym.batch_dot(*variables()[:2], transpose_b=True), dtype="float16"))
    names, _ = run(sym.batch_dot(sym.Cast(low, dtype="float32"), variables()[2]), None, "write")
    assert not [n for n in names if "attention" in n]


def test_mixed_precision():
    layers = [
        sym.FullyConnected(x, num_hidden=HEADS * DEPTH, flatten=False, no_bias=True) for x in variables()
    ]
    found = []
    for passes in ("+amp", "none"):
        executor = joined(attention(*map(cut, layers))).simple_bind(
            passes=passes, q=(2, 5, 8), k=(2, 7, 8), v=(2, 7, 8)
        )
        rng = np.random.default_rng(0)
        for array in executor.arg_dict.values():
            array[:] = rng.uniform(-1, 1, array.shape)
        executor.forward(is_train=True)
        executor.backward([nd.ones((2, 5, HEADS * DEPTH))])
        found.append([array.asnumpy() for array in executor.grad_dict.values()])
        names = [node.op.name for node in executor.nodes(True)]
        apart = [n for n in names if "attention" in n or n in ("softmax", "batch_dot", "transpose")]
        assert (apart == BOTH) == (passes == "+amp")
    for y, expected in zip(*found, strict=True):
        assert np.linalg.norm(y - expected) < 0.05 * np.linalg.norm(expected)


def test_what_is_read_elsewhere_or_lacks_a_gradient_is_left_alone():
    q, k, v = variables()
    chances = sym.softmax(sym.batch_dot(q, k, transpose_b=True))
    nets = (
        (sym.Group([sym.batch_dot(chances, v), chances]), "write"),
        (sym.Group([sym.batch_dot(chances, v), sym.sum(chances)]), "write"),
        (sym.batch_dot(sym.Dropout(chances, p=0.0) * 2, v), "write"),
        (attention(*variables(), axis=1), "write"),
        (attention(*variables()), {"q": "write", "k": "null", "v": "write"}),
    )
    for net, wanted in nets:
        assert not [n for n in same(net, wanted) if "attention" in n]


@pytest.mark.parametrize("around", [lambda y: y, sym.tanh])
def test_columns_of_the_softmax_are_no_attention(around):
    """The gradient of the value is the product of chances and the head gradient: a forward product by its looks."""
    q, k, v = variables()
    chances = sym.softmax(sym.batch_dot(k, q, transpose_b=True))
    names = same(around(sym.batch_dot(chances, v, transpose_a=True)))
    assert not any("attention" in name for name in names)


def test_without_kernels_training_is_untouched(monkeypatch):
    monkeypatch.setattr(Graph, "has_kernel", lambda self, op, *given: op.name == BOTH[0])
    assert not [n for n in same(attention(*variables())) if "attention" in n]
