# SPDX-License-Identifier: Apache-2.0
"""Graphs on several devices, and graphs with shapes that depend on values, bound and run."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mx_core.context import cpu
from mx_core.errors import ArgumentError, MXNetError, ShapeError
from mx_ndarray import autograd, nd
from mx_symbol import AttrScope, CachedOp, sym

GROUPS = {"one": cpu(1), "two": cpu(2)}


def two_layers():
    with AttrScope(ctx_group="one"):
        net = sym.FullyConnected(sym.Variable("data"), num_hidden=4, name="fc1")
        net = sym.Activation(net, act_type="tanh", name="act")
    with AttrScope(ctx_group="two"):
        net = sym.FullyConnected(net, num_hidden=3, name="fc2")
        return sym.SoftmaxOutput(net, name="softmax")


def filled(executor, seed=0):
    rng = np.random.default_rng(seed)
    for name, array in executor.arg_dict.items():
        array[:] = rng.standard_normal(array.shape) if name != "softmax_label" else 1
    return executor


def trained(executor, *grads):
    executor.forward(is_train=True)
    executor.backward(list(grads) or None)
    return [g.asnumpy() for g in (*executor.outputs, *executor.grad_arrays) if g is not None]


@pytest.mark.parametrize("grad_req", ["write", "add", {"fc1_weight": "write", "fc2_bias": "add"}])
def test_two_devices_compute_what_one_computes(grad_req):
    net = two_layers()
    alone = filled(net.simple_bind(cpu(0), grad_req, data=(2, 5)))
    split = filled(net.simple_bind(cpu(0), grad_req, group2ctx=GROUPS, data=(2, 5)))
    for _ in range(2):
        for expected, got in zip(trained(alone), trained(split), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_arrays_lie_on_the_devices_of_their_groups():
    executor = two_layers().simple_bind(cpu(0), group2ctx=GROUPS, data=(2, 5))
    assert [a.context.device_id for a in executor.arg_arrays] == [1, 1, 1, 2, 2, 2]
    assert [a.context.device_id for a in executor.grad_arrays] == [1, 1, 1, 2, 2, 2]
    assert executor.outputs[0].context == cpu(2)
    smaller = executor.reshape(partial_shaping=True, data=(1, 5))
    assert smaller.arg_dict["fc2_weight"] is executor.arg_dict["fc2_weight"]
    assert smaller.forward()[0].context == cpu(2)


def test_copies_stand_at_the_borders_and_nowhere_else():
    executor = two_layers().simple_bind(cpu(0), group2ctx=GROUPS, data=(2, 5))
    text = executor.debug_str()
    assert text.count("Op:_CrossDeviceCopy") == 1
    assert "act_0_copy" in text
    assert "Piece 0 on cpu(1): fc1, act\n" in text
    seen = []
    executor.set_monitor_callback(lambda name, _: seen.append(name))
    executor.forward()
    assert seen == ["fc1_output", "act_output", "act_0_copy_output", "fc2_output", "softmax_output"]
    executor.set_monitor_callback(lambda name, _: seen.append(name), monitor_all=True)
    executor.forward()
    assert {"data", "fc1_weight"} <= set(seen)


def test_a_value_is_copied_once_for_all_its_readers():
    with AttrScope(ctx_group="one"):
        a = sym.exp(sym.Variable("a"), name="e")
    with AttrScope(ctx_group="two"):
        net = (a * 2) + (a * 3)
    executor = net.simple_bind(cpu(0), group2ctx=GROUPS, a=(2,))
    assert executor.debug_str().count("Op:_CrossDeviceCopy") == 1
    out_grad = nd.ones((2,))  # on a third device
    outputs, grad = trained(executor, out_grad)
    np.testing.assert_array_equal(outputs, [5, 5])
    np.testing.assert_array_equal(grad, [5, 5])


def test_a_step_of_the_next_layer_does_not_wait_for_the_whole_layer_before():
    """Layer by layer on two devices, an unrolled network runs as a wave."""
    state = [sym.Variable(f"s{i}", attr={"ctx_group": group}) for i, group in enumerate(GROUPS)]
    for t in range(4):
        below = sym.Variable(f"x{t}", attr={"ctx_group": "one"})
        for layer, group in enumerate(GROUPS):
            with AttrScope(ctx_group=group):
                state[layer] = below = sym.tanh(below + state[layer], name=f"h{layer}_{t}")
    shapes = {name: (2,) for name in state[1].list_arguments()}
    executor = state[1].simple_bind(cpu(0), group2ctx=GROUPS, **shapes)
    lines = [line for line in executor.debug_str().splitlines() if line.startswith("Piece")]
    order = " ".join(lines)
    assert order.index("h1_0") < order.index("h0_3")
    assert len(lines) == 12


def test_what_pieces_refuse():
    net = two_layers()
    with pytest.raises(ArgumentError, match="memory_budget"):
        net.simple_bind(cpu(0), group2ctx=GROUPS, memory_budget=10**6, data=(2, 5))
    executor = net.simple_bind(cpu(0), group2ctx=GROUPS, data=(2, 5))
    for looked in (executor.memory_plan, executor.nodes, executor.partial_forward):
        with pytest.raises(MXNetError, match="pieces"):
            looked()
    with pytest.raises(ShapeError, match="fc1"):
        net.simple_bind(cpu(0), group2ctx=GROUPS, data=(2, 5), fc1_weight=(4, 6))


def masked():
    kept = sym.contrib.boolean_mask(sym.Variable("x") * 3, sym.Variable("mask"), name="kept")
    return sym.Group([sym.sum(kept * kept), kept])


def test_shapes_that_depend_on_values():
    executor = masked().simple_bind(grad_req={"x": "write"}, x=(3, 2), mask=(3,))
    rows = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert executor.outputs == []
    for mask in ([1, 0, 1], [0, 1, 0], [1, 1, 1]):
        total, kept = executor.forward(is_train=True, x=rows, mask=np.array(mask))
        chosen = 3 * rows[np.array(mask, bool)]
        np.testing.assert_array_equal(kept.asnumpy(), chosen)
        assert total.asscalar() == (chosen**2).sum()
        executor.backward([nd.ones(total.shape), nd.zeros(kept.shape)])
        np.testing.assert_array_equal(executor.grad_dict["x"].asnumpy(), 18 * rows * np.array(mask)[:, None])
    with pytest.raises(ShapeError, match=r"out_grads\[1\]"):
        executor.backward([nd.ones((1,)), nd.zeros((9, 2))])


def test_backward_after_inference_and_twice():
    executor = masked().simple_bind(x=(2, 1), mask=(2,))
    executor.forward(x=np.array([[1.0], [2.0]]), mask=np.array([1, 0]))
    for _ in range(2):
        executor.backward([nd.ones(executor.outputs[0].shape), nd.zeros((1, 1))])
        assert executor.grad_dict["x"].asnumpy().tolist() == [[18], [0]]
        assert executor.grad_dict["mask"].asnumpy().tolist() == [0, 0]


def test_only_what_depends_on_values_runs_alone():
    op = CachedOp(masked())
    assert op._pieces is not None
    sizes = [len(piece.nodes) for piece in op._pieces.pieces]
    assert sizes == [1, 1, 2]  # the product; the mask; the square and the sum
    x = nd.array([[1.0], [2.0]])
    x.attach_grad()
    with autograd.record():
        total, _ = op(x, nd.array([0, 1]))
    total.backward()
    assert x.grad.asnumpy().tolist() == [[0], [36]]


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_placement_computes_the_same(data):
    values = [sym.Variable(name) for name in "abc"]
    groups = {f"g{i}": cpu(i) for i in range(3)}
    for i in range(data.draw(st.integers(1, 10))):
        with AttrScope(ctx_group=f"g{data.draw(st.integers(0, 2))}"):
            left, right = (values[data.draw(st.integers(0, len(values) - 1))] for _ in range(2))
            kind = data.draw(st.sampled_from(["add", "mul", "tanh"]))
            values.append(
                sym.tanh(left) if kind == "tanh" else left + right if kind == "add" else left * right
            )
    net = sym.Group([values[-1] * 1, sym.sum(values[len(values) // 2] * 1)])
    shapes = {name: (2, 3) for name in net.list_arguments()}
    executors = [filled(net.simple_bind(cpu(0), "add", group2ctx=g, **shapes)) for g in (None, groups)]
    for executor in executors:
        for array in executor.arg_arrays:
            array *= 0.5
    outs = [trained(e, nd.ones((2, 3)), nd.ones(e.outputs[1].shape)) for e in executors]
    for expected, got in zip(*outs, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
