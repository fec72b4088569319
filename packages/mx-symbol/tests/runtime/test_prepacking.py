# SPDX-License-Identifier: Apache-2.0
"""What is prepared, is prepared once for all executors that share memory, and again after a write."""

from collections import Counter

import numpy as np
import pytest

from mx_core.context import cpu
from mx_core.graph import PREPARED
from mx_engine import profiler
from mx_ndarray import nd
from mx_symbol import AttrScope, sym


def network():
    """A layer and a constant."""
    x = sym.FullyConnected(sym.Variable("data"), num_hidden=16, name="fc")
    return sym.relu(sym.broadcast_add(x, sym.exp(sym.arange(16))))


def buckets(rows=(32, 64, 96)):
    """Executors for several lengths, as BucketingModule makes them."""
    first = network().simple_bind(grad_req="null", data=(rows[0], 8))
    first.arg_dict["fc_weight"][:] = np.arange(128).reshape(16, 8) / 64
    others = [network().simple_bind(grad_req="null", shared_exec=first, data=(n, 8)) for n in rows[1:]]
    return [first, *others]


@pytest.fixture
def counted():
    """A function that runs something and counts the operators that ran."""

    def count(run):
        profiler.set_config(profile_all=True, aggregate_stats=True)
        profiler.dumps(reset=True)
        profiler.set_state("run")
        try:
            run()
            nd.waitall()
        finally:
            profiler.set_state("stop")
        lines = profiler.dumps(reset=True).splitlines()
        words = [line.split() for line in lines if line]
        return Counter({w[0]: int(w[1]) for w in words if len(w) == 6 and w[1].isdigit()})

    return count


def run_all(executors):
    for executor in executors:
        executor.forward()


def prepared_names(executor):
    return {n.op.name for n in executor.nodes(False) if PREPARED in n.attrs}


def test_buckets_prepare_their_values_once_and_again_after_a_write(counted):
    executors = buckets()
    names = prepared_names(executors[0])
    assert {"exp", "_onednn_pack_weight"} & names
    first = counted(lambda: [run_all(executors) for _ in range(3)])
    assert {name: first[name] for name in names} == dict.fromkeys(names, 1)
    assert first["_fused_FullyConnected"] + first["FullyConnected"] == 9
    assert not names & set(counted(lambda: run_all(executors)))
    executors[0].arg_dict["fc_weight"][:] = 1.0
    again = counted(lambda: run_all(executors))
    assert {name: again[name] for name in names} == dict.fromkeys(names, 1)


def test_values_follow_writes_whoever_runs_first():
    executors = buckets()
    data = np.linspace(-1, 1, 8, dtype=np.float32)
    for weight in (1.0, -2.0, 0.5):
        executors[1].arg_dict["fc_weight"][:] = weight
        for executor in reversed(executors):
            executor.arg_dict["data"][:] = data + 1
            expected = np.maximum((data + 1).sum() * weight + np.exp(np.arange(16)), 0)
            np.testing.assert_allclose(executor.forward()[0].asnumpy()[-1], expected, rtol=1e-5)


def test_others_prepare_their_own(counted):
    one, other = buckets((32,))[0], buckets((32,))[0]
    names = prepared_names(one)
    found = counted(lambda: run_all([one, other]))
    assert {name: found[name] for name in names} == dict.fromkeys(names, 2)


def test_values_go_with_the_last_executor_that_uses_them():
    first, second = buckets((32, 64))
    run_all([first, second])
    known = first._arena.prepacks._known
    assert len(known) >= 1
    del first
    nd.waitall()
    assert second.forward()[0].asnumpy().shape == (64, 16) and len(known) >= 1
    del second
    nd.waitall()
    assert len(known) == 0


def test_numbers_go_with_the_values_that_they_are_of():
    (first,) = buckets((32,))
    first.forward()
    sizes = []
    for _ in range(4):
        args = {name: array.copy() for name, array in first.arg_dict.items()}
        other = network().bind(cpu(), args, grad_req="null", shared_exec=first)
        np.testing.assert_array_equal(other.forward()[0].asnumpy(), first.forward()[0].asnumpy())
        sizes.append(len(first._arena.prepacks._numbers))
        del other
        nd.waitall()
    assert len(set(sizes[1:])) == 1


def test_the_memory_plan_is_of_what_runs_and_says_what_is_prepared():
    x = sym.Convolution(sym.Variable("data"), kernel=(3, 3), num_filter=16, pad=(1, 1), name="c1")
    x = sym.relu(sym.BatchNorm(x, name="norm"))
    x = sym.exp(sym.FullyConnected(x, num_hidden=10, name="fc") * 2)
    executor = x.simple_bind(grad_req="null", data=(4, 3, 16, 16))
    plan, nodes = executor.memory_plan(), executor.nodes()
    n = sum(PREPARED in node.attrs for node in nodes)
    assert plan.n_prepared == n > 0
    assert all(PREPARED in node.attrs for node in nodes[:n])
    for place in plan.placements.values():  # names, steps and nodes agree, and no value lives in both parts
        assert plan.names[place.value].startswith(nodes[place.birth].name)
        assert (place.birth < n) == (place.death < n)
    assert len({place.storage for place in plan.placements.values()}) > 1
    executor.forward()
    nd.waitall()
    assert executor._arena.n_bytes == plan.total_bytes  # what runs, and no other
    (prepack,) = executor._modes[executor._last].program.prepacks
    kept = sum(array.size * np.dtype(array.dtype).itemsize for array in prepack.arrays.values())
    assert plan.kept_bytes == kept > 0
    text = str(plan).splitlines()
    assert text[1].startswith(f"  steps 0 to {n - 1} are prepared") and f"{kept / 1024:.2f} KiB" in text[1]
    assert f"every time (before: prepared, {kept / 1024:.2f} KiB kept)" in plan.to_svg()


def test_the_plan_of_a_training_step_behind_what_is_prepared():
    x = sym.FullyConnected(sym.Variable("data"), num_hidden=16, name="fc")
    x = sym.tanh(sym.broadcast_add(x, sym.exp(sym.arange(16)))) * sym.sigmoid(x)
    executor = x.simple_bind(data=(32, 8))
    plan, nodes = executor.memory_plan(), executor.nodes()
    assert plan.n_prepared == sum(PREPARED in node.attrs for node in nodes) > 0
    assert plan.n_forward is not None and "backward" in nodes[plan.n_forward].name
    assert all(plan.names[p.value].startswith(nodes[p.birth].name) for p in plan.placements.values())
    executor.forward(is_train=True)
    executor.backward(nd.ones((32, 16)))
    nd.waitall()
    assert executor._arena.n_bytes == plan.total_bytes
    svg = plan.to_svg()
    assert "every time" in svg and "backward" in svg


def layer_behind_a_computed_weight():
    """A layer and its norm on one device, with a weight that another one computes."""
    with AttrScope(ctx_group="one"):
        weight = sym.Variable("w", shape=(32, 16, 3, 3)) * 2
    with AttrScope(ctx_group="two"):
        x = sym.Convolution(
            sym.Variable("x") * 1,
            weight,
            kernel=(3, 3),
            pad=(1, 1),
            num_filter=32,
            no_bias=True,
            name="layer",
        )
        return sym.sigmoid(sym.relu(sym.BatchNorm(x, name="norm", fix_gamma=False)))


def run_whole(executor):
    executor.forward()


def run_by_steps(executor):
    step, left = 0, 1
    while left:
        left = executor.partial_forward(step=step)
        step += 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("groups", "run"), [({"one": cpu(0), "two": cpu(1)}, run_whole), (None, run_by_steps)],
    ids=["on two devices", "node by node"],
)  # fmt: skip
def test_prepared_nodes_of_different_parts_hand_over_what_stays(groups, run, dtype):
    net = layer_behind_a_computed_weight()
    given = {"x": (2, 16, 6, 6), "grad_req": "null", "type_dict": {"x": dtype, "w": dtype}}
    plain = net.simple_bind(cpu(0), passes="none", **given)
    cut = net.simple_bind(cpu(0), group2ctx=groups, **given)
    assert sum(PREPARED in node.attrs for node in cut.nodes(False)) > 1
    rng = np.random.default_rng(0)
    names = {**cut.arg_dict, **cut.aux_dict}
    for written in (names, (), (), ("w",), ("norm_gamma", "norm_moving_var"), ()):
        for name in written:
            value = np.abs(rng.normal(size=names[name].shape)) + 0.1
            for executor in (plain, cut):
                (executor.arg_dict if name in executor.arg_dict else executor.aux_dict)[name][:] = value
        plain.forward()
        run(cut)
        np.testing.assert_allclose(cut.outputs[0].asnumpy(), plain.outputs[0].asnumpy(), rtol=2e-5)
