# SPDX-License-Identifier: Apache-2.0
"""Elementwise fusion: one node for neighbours, the same values and gradients."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mx_ndarray import nd
from mx_symbol import sym
from mx_symbol.memory.check import check_plan
from mx_symbol.passes import elementwise_fusion
from mx_symbol.passes.stages import trace


def program(net, shapes, **options):
    """Names of the operators that run, after fusion."""
    return [n.op.name for n in list(trace(net, shapes, **options))[-1].after.nodes]


def run(net, values, passes, is_train=True):
    """Outputs and gradients."""
    shapes = {name: value.shape for name, value in values.items()}
    executor = net.simple_bind(passes=passes, **shapes)
    executor.forward(is_train=is_train, **values)
    rng = np.random.default_rng(3)
    heads = [rng.standard_normal(out.shape).astype("float32") for out in executor.outputs]
    executor.backward([nd.array(h) for h in heads])
    return [a.asnumpy() for a in (*executor.outputs, *executor.grad_arrays)]


def assert_same(net, values):
    for fused, plain in zip(run(net, values, "all"), run(net, values, "none"), strict=True):
        np.testing.assert_allclose(fused, plain, rtol=2e-5, atol=1e-6)


def arrays(*shapes):
    rng = np.random.default_rng(1)
    return {n: rng.standard_normal(s).astype("float32") for n, s in zip("abcd", shapes, strict=False)}


def test_a_chain_is_one_node_forward_and_one_backward():
    a = sym.Variable("a")
    net = sym.tanh(sym.exp(a * 0.5) + 1) * 3 - a
    assert program(net, {"a": (4, 5)}) == ["_fused"]
    executor = net.simple_bind(a=(4, 5))
    assert [n.op.name for n in executor.nodes()] == ["_fused", "_fused"]
    assert_same(net, arrays((4, 5)))


def test_what_others_read_is_an_output_of_the_fused_node():
    a = sym.Variable("a")
    inner = sym.exp(a)
    net = sym.Group([sym.sum(inner), sym.sin(inner) * 2])
    assert sorted(program(net, {"a": (4, 5)})) == ["_fused", "sum"]
    assert_same(net, arrays((4, 5)))


def test_a_path_that_leaves_and_returns_is_not_fused_over():
    a = sym.Variable("a")
    inner = sym.exp(a)
    net = sym.sin(inner) + sym.broadcast_mul(sym.sum(inner, axis=1, keepdims=True), a)
    names = program(net, {"a": (4, 5)})
    assert names.index("sum") > names.index("_fused") or "exp" in names
    assert_same(net, arrays((4, 5)))


def test_two_groups_do_not_wait_for_each_other():
    """One group has begun and another has ended before each of them reads what hangs on the other."""
    a, b = sym.Variable("a"), sym.Variable("b")
    first, second = sym.tanh(a), sym.tanh(sym.Cast(b, dtype="float64"))
    widened = sym.Cast(first, dtype="float64")
    net = sym.Group([sym.sum(widened), first + sym.Cast(second, dtype="float32"), second * widened])
    assert program(net, {"a": (3, 4), "b": (3, 4)}).count("_fused") == 1
    assert_same(net, arrays((3, 4), (3, 4)))


def test_broadcast_operands_are_read_as_they_are():
    a, b = sym.Variable("a"), sym.Variable("b")
    net = sym.relu(sym.broadcast_add(sym.broadcast_mul(a, sym.exp(b)), b))
    assert program(net, {"a": (6, 4, 5), "b": (1, 4, 1)}) == ["exp", "_fused"]
    assert_same(net, arrays((6, 4, 5), (1, 4, 1)))


def test_branches_that_meet_are_one_node():
    a, b = sym.Variable("a"), sym.Variable("b")
    net = sym.sin(sym.exp(a)) + sym.cos(sym.tanh(b))
    assert program(net, {"a": (7,), "b": (7,)}) == ["_fused"]
    assert_same(net, arrays((7,), (7,)))


def test_long_chains_are_cut_into_kernels_of_bounded_size():
    a = sym.Variable("a")
    net = a
    for i in range(100):
        net = sym.sin(net) + i
    names = program(net, {"a": (3,)})
    assert set(names) <= {"_fused", "_plus_scalar"} and 4 <= len(names) <= 12
    assert_same(net, {"a": np.linspace(-1, 1, 3, dtype="float32")})


def test_half_precision_is_rounded_where_it_was():
    a = sym.Variable("a", dtype="float16")
    net = (a + 1000) - 1000
    for passes in ("all", "none"):
        executor = net.simple_bind(grad_req="null", passes=passes, type_dict={"a": "float16"}, a=(3,))
        executor.arg_dict["a"][:] = nd.array([0.1, 0.3, 0.7])
        assert executor.forward()[0].asnumpy().tolist() == [0.0, 0.5, 0.5]


def test_scalars_that_change_are_still_read():
    a = sym.Variable("a")
    nets = [sym.exp(a * k) + k for k in (2.0, 3.0)]
    for k, net in zip((2.0, 3.0), nets, strict=True):
        out = net.simple_bind(grad_req="null", a=(2,)).forward(a=np.array([0.0, 1.0]))[0]
        np.testing.assert_allclose(out.asnumpy(), np.exp(np.array([0.0, 1.0]) * k) + k, rtol=1e-5)


UNARY = [sym.exp, sym.sin, sym.tanh, sym.relu, sym.square, sym.negative, lambda x: x * 0.5, lambda x: x + 2]
BINARY = [sym.elemwise_add, sym.elemwise_mul, sym.elemwise_sub, sym.broadcast_maximum]


@st.composite
def networks(draw):
    """Random graphs of elementwise operators, reductions and products over a few inputs of one shape."""
    values = [sym.tanh(sym.Variable(name)) for name in "abc"]
    for _ in range(draw(st.integers(2, 14))):
        kind = draw(st.integers(0, 9))
        x, y = (values[draw(st.integers(0, len(values) - 1))] for _ in range(2))
        if kind < 4:
            made = sym.tanh(draw(st.sampled_from(UNARY))(x))
        elif kind < 8:
            made = sym.tanh(draw(st.sampled_from(BINARY))(x, y))
        elif kind == 8:
            made = sym.broadcast_add(sym.mean(x, axis=1, keepdims=True), y)
        else:
            made = sym.dot(x, sym.transpose(y)) * 0.1 if draw(st.booleans()) else sym.transpose(x)
            made = sym.tanh(made)
        values.append(made)
    picked = draw(st.lists(st.sampled_from(values[3:]), min_size=1, max_size=3))
    return sym.Group([*picked, values[-1]])


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(networks(), st.sampled_from(["write", "add", "mixed"]), st.booleans())
def test_random_graphs_give_the_same_values_and_gradients(net, req, backward_first):
    names = net.list_arguments()
    reqs = {n: ("write", "add", "null")[i % 3] if req == "mixed" else req for i, n in enumerate(names)}
    values = {n: v for n, v in arrays((3, 3), (3, 3), (3, 3)).items() if n in names}
    results = []
    for passes in ("all", "none"):
        executor = net.simple_bind(grad_req=reqs, passes=passes, **{n: (3, 3) for n in names})
        for array in executor.grad_arrays:
            if array is not None:
                array[:] = 0.5
        for _ in range(2):
            executor.forward(is_train=not backward_first, **values)
            executor.backward([nd.ones(out.shape) for out in executor.outputs])
        schedule = executor._schedule(executor._mode(None))
        check_plan(schedule.steps, schedule.sizes, schedule.external, schedule.plan)
        found = [*executor.outputs, *(g for g in executor.grad_arrays if g is not None)]
        results.append([a.asnumpy() for a in found])
    for optimised, plain in zip(*results, strict=True):
        np.testing.assert_allclose(optimised, plain, rtol=1e-3, atol=1e-4)


def test_backward_chains_are_fused():
    a, b = sym.Variable("a"), sym.Variable("b")
    net = sym.FullyConnected(sym.tanh(a * 2) * sym.sigmoid(a), b, num_hidden=3, no_bias=True)
    executor = net.simple_bind(a=(2, 3))
    names = [n.op.name for n in executor.nodes()]
    assert names.count("_fused") == 2 and len(names) == 4
    assert_same(net, arrays((2, 3), (3, 3)))


def test_a_sum_over_many_steps_is_not_one_kernel(monkeypatch):
    """It would keep the gradient of every step until the last is there."""
    state, weight = sym.Variable("state"), sym.Variable("weight")
    for step in range(16):
        state = sym.FullyConnected(state, weight, num_hidden=64, no_bias=True, name=f"fc{step}")
        for _ in range(12):
            state = sym.tanh(state)
    narrow = state.simple_bind(state=(1, 64)).memory_plan().total_bytes
    monkeypatch.setattr(elementwise_fusion, "MOST_SPAN", 10**6)
    wide = state.simple_bind(state=(1, 64)).memory_plan().total_bytes
    one_gradient = 64 * 64 * 4
    assert narrow + one_gradient < wide
