# SPDX-License-Identifier: Apache-2.0
"""Graphs on several devices: everything an executor does, with the numbers of one device."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mx_core.context import cpu
from mx_core.errors import ArgumentError, MXNetError, ShapeError
from mx_ndarray import autograd, nd
from mx_symbol import AttrScope, sym
from mx_symbol._core import FlatGraph
from mx_symbol.graph import topological_order
from mx_symbol.memory.check import check_plan
from mx_symbol.passes.bound_graph import build
from mx_symbol.runtime.devices import Devices

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


def predicted(executor, *_):
    return [output.asnumpy() for output in executor.forward()]


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
    assert "Partition 0 on cpu(1): fc1, act\n" in text
    seen = []
    executor.set_monitor_callback(lambda name, _: seen.append(name))
    executor.forward()
    assert seen == ["fc1_output", "act_output", "act_0_copy_output", "fc2_output", "softmax_output"]
    executor.set_monitor_callback(lambda name, _: seen.append(name), monitor_all=True)
    executor.forward()
    assert {"data", "fc1_weight"} <= set(seen)


@pytest.mark.parametrize(
    ("grad_req", "names"),
    [
        ("write", ["e", "e_0_copy", "t", "t_backward", "t_backward_0_copy", "e_backward"]),
        ("null", ["e", "e_0_copy", "t"]),
    ],
)
def test_head_gradients_are_taken_where_the_outputs_lie(grad_req, names):
    with AttrScope(ctx_group="one"):
        below = sym.exp(sym.Variable("a"), name="e")
    with AttrScope(ctx_group="two"):
        heads = sym.tanh(below, name="t").entries
    graph = build(heads, {"a": (2,)}, {"a": 0}, {"a": grad_req})
    whole = FlatGraph(topological_order(entry.node for entry in heads))
    placed = Devices(whole, cpu(0), GROUPS).bound_with_copies(graph, {"a": cpu(1)})
    assert [node.name for node in placed.schedule] == names


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
    lines = [line for line in executor.debug_str().splitlines() if line.startswith("Partition")]
    order = " ".join(lines)
    assert order.index("h1_0") < order.index("h0_3")
    assert len(lines) == 16  # a step forward and a step backward each


@pytest.mark.long
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


def constant_there_and_back():
    with AttrScope(ctx_group="one"):
        x, state = sym.Variable("x"), sym.zeros((2, 3))
    with AttrScope(ctx_group="two"):
        y, state = sym.cos(x * state), sym.tanh(state + 1)
    with AttrScope(ctx_group="one"):
        return x * y * sym.sin(state)


def equal_values_there_and_back():
    with AttrScope(ctx_group="one"):
        x = sym.Variable("x")
        u, v = sym.sin(x), sym.sin(x)
    with AttrScope(ctx_group="two"):
        h = sym.sigmoid(u) + sym.cos(v)
    with AttrScope(ctx_group="one"):
        return sym.Group([sym.exp(h), u, v])


def equal_gradients_there_and_back():
    with AttrScope(ctx_group="one"):
        x = sym.tanh(sym.Variable("x"))
    with AttrScope(ctx_group="two"):
        u, v = sym.cos(x), sym.sin(x)
    with AttrScope(ctx_group="one"):
        return u * 2 + v * 2


def weight_there_and_back():
    with AttrScope(ctx_group="one"):
        x = sym.reshape(sym.tanh(sym.Variable("x")), shape=(1, 1, 2, 3))
    with AttrScope(ctx_group="two"):
        weight = sym.broadcast_mul(sym.Variable("w", shape=(4, 1, 1, 1)), sym.sum(x))
    with AttrScope(ctx_group="one"):
        return sym.Convolution(x, weight, kernel=(1, 1), num_filter=4, no_bias=True)


@pytest.mark.parametrize("passes", [None, "-cse", "-constants"])
@pytest.mark.parametrize("grad_req", ["null", "write", "add"])
@pytest.mark.parametrize(
    "net",
    [
        constant_there_and_back,
        equal_values_there_and_back,
        equal_gradients_there_and_back,
        weight_there_and_back,
    ],
)
def test_devices_do_not_wait_for_each_other(net, grad_req, passes):
    """What passes merge or prepare still leaves its device before what waits for it there."""
    alone, split = (
        filled(net().simple_bind(cpu(0), grad_req, group2ctx=groups, passes=passes, x=(2, 3)))
        for groups in (None, GROUPS)
    )
    run = trained if grad_req != "null" else predicted
    grads = [nd.ones(output.shape) for output in alone.outputs]
    for _ in range(2):
        for expected, got in zip(run(alone, *grads), run(split, *grads), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def deep(depth=6):
    """Layers on two devices in turns, with products and normalisation."""
    net = sym.Variable("data")
    for i in range(depth):
        with AttrScope(ctx_group=("one", "two")[i % 2]):
            for j in range(3):
                net = sym.FullyConnected(net, num_hidden=16, name=f"fc{i}_{j}")
                net = sym.Activation(sym.BatchNorm(net, name=f"bn{i}_{j}"), act_type="tanh")
    return sym.MakeLoss(sym.mean(net * net))


def test_every_device_has_a_plan():
    executor = deep().simple_bind(cpu(0), group2ctx=GROUPS, data=(8, 16))
    plan = executor.memory_plan()
    assert set(plan.devices) == {cpu(0), cpu(1), cpu(2)}
    assert plan.live_bytes <= plan.total_bytes < plan.naive_bytes
    assert plan.total_bytes == sum(one.total_bytes for one in plan.devices.values())
    crossing = 8 * 16 * 4
    # three values come, `data` from cpu(0) among them, and three leave; backward it is their gradients
    assert plan.crossing[cpu(1)] == (3 + 3) * 2 * crossing
    assert "cpu(2): " in str(plan) and "bytes, storage" in str(plan)
    drawing = plan.to_svg()
    assert drawing.count("<svg") == 4 and drawing.count("</svg>") == 4 and "cpu(1)" in drawing
    assert "to and from other devices" in executor.debug_str()
    for is_train in (False, True):
        for partition in executor._timeline(executor._mode(is_train)).partitions:
            schedule = partition.schedule
            check_plan(schedule.steps, schedule.sizes, schedule.external, schedule.plan)


def test_a_budget_holds_on_every_device():
    net = deep()
    free = filled(net.simple_bind(cpu(0), group2ctx=GROUPS, data=(64, 16)))
    budget = int(0.7 * max(plan.total_bytes for plan in free.memory_plan().devices.values()))
    tight = filled(net.simple_bind(cpu(0), group2ctx=GROUPS, memory_budget=budget, data=(64, 16)))
    assert all(plan.total_bytes <= budget for plan in tight.memory_plan().devices.values())
    assert len(tight.nodes()) > len(free.nodes())
    for _ in range(2):
        for expected, got in zip(trained(free), trained(tight), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)
    smaller = tight.reshape(data=(32, 16))
    assert all(plan.total_bytes <= budget for plan in smaller.memory_plan().devices.values())
    with pytest.raises(MXNetError, match="memory_budget=64"):
        net.simple_bind(cpu(0), group2ctx=GROUPS, memory_budget=64, data=(64, 16))
    with pytest.raises(ArgumentError, match="positive number"):
        net.simple_bind(cpu(0), group2ctx=GROUPS, memory_budget=0, data=(64, 16))


def test_steps_of_a_partial_forward_are_nodes_and_copies():
    net = two_layers()
    whole, stepped = (filled(net.simple_bind(cpu(0), group2ctx=GROUPS, data=(2, 5))) for _ in range(2))
    expected = trained(whole)
    left, step = 1, 0
    names = []
    while left:
        left = stepped.partial_forward(is_train=True, step=step)
        names.append(stepped.nodes()[step].name)
        step += 1
    assert names == ["fc1", "act", "act_0_copy", "fc2", "softmax"]
    stepped.backward()
    got = [*stepped.outputs, *(g for g in stepped.grad_arrays if g is not None)]
    for one, other in zip(expected, got, strict=True):
        np.testing.assert_allclose(other.asnumpy(), one, rtol=1e-6)
    with pytest.raises(IndexError, match="step"):
        stepped.partial_forward(is_train=True, step=step)


def test_executors_share_arenas_on_every_device():
    net = deep()
    large = filled(net.simple_bind(cpu(0), group2ctx=GROUPS, data=(32, 16)))
    first = trained(large)
    small = net.simple_bind(cpu(0), group2ctx=GROUPS, shared_exec=large, data=(8, 16))
    assert small.arg_dict["fc0_0_weight"] is large.arg_dict["fc0_0_weight"]
    for place in (cpu(1), cpu(2)):
        assert small._arena.at(place) is large._arena.at(place)
        before = large._arena.at(place).n_bytes
        trained(small)
        assert large._arena.at(place).n_bytes == before > 0
    assert first[0] == trained(large)[0]


def test_a_monitor_sees_both_directions():
    executor = filled(two_layers().simple_bind(cpu(0), group2ctx=GROUPS, data=(2, 5)))
    expected = trained(executor)
    seen = {}
    executor.set_monitor_callback(lambda name, array: seen.setdefault(name, array.context))
    for one, other in zip(expected, trained(executor), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-6)
    assert seen["fc1_output"] == cpu(1) and seen["act_0_copy_output"] == seen["softmax_output"] == cpu(2)
    backward = [name for name in seen if "backward" in name]
    assert {seen[name] for name in backward} == {cpu(1), cpu(2)}
    executor.set_monitor_callback(None)
    seen.clear()
    trained(executor)
    assert not seen


def test_states_and_gradients_may_lie_elsewhere():
    """A running mean on another device than its operator is copied there and back; gradients end where they should."""
    mean = sym.Variable("bn_moving_mean", attr={"ctx_group": "two"})
    with AttrScope(ctx_group="one"):
        net = sym.BatchNorm(sym.Variable("data"), moving_mean=mean, momentum=0.5, name="bn")
    names, aux = net.list_arguments(), net.list_auxiliary_states()
    shapes = {"data": (4, 3), "bn_gamma": (3,), "bn_beta": (3,)}
    rng = np.random.default_rng(1)
    values = {name: rng.normal(size=shapes[name]).astype("float32") for name in names}
    results = []
    for place, groups in ((cpu(0), None), (cpu(2), GROUPS)):
        args = {name: nd.array(value, ctx=place) for name, value in values.items()}
        grads = {name: nd.zeros(value.shape, ctx=cpu(0)) for name, value in values.items()}
        states = {name: nd.ones((3,), ctx=place) for name in aux}
        executor = net.bind(cpu(0), args, grads, aux_states=states, group2ctx=groups)
        for _ in range(2):
            executor.forward(is_train=True)
            executor.backward([nd.ones((4, 3), ctx=executor.outputs[0].context)])
        results.append([a.asnumpy() for a in (*executor.outputs, *executor.aux_arrays, *grads.values())])
    for expected, got in zip(*results, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_inside_a_recorded_program():
    executor = filled(two_layers().simple_bind(cpu(0), group2ctx=GROUPS, data=(2, 5)))
    expected = trained(executor)
    with autograd.record():
        got = trained(executor)
    for one, other in zip(expected, got, strict=True):
        np.testing.assert_array_equal(one, other)


def test_shapes_that_contradict_are_refused():
    with pytest.raises(ShapeError, match="fc1"):
        two_layers().simple_bind(cpu(0), group2ctx=GROUPS, data=(2, 5), fc1_weight=(4, 6))
