# SPDX-License-Identifier: Apache-2.0
"""Branches side by side: which branches there are, when they pay, and that they compute the same."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mx_ndarray
from mx_core.errors import ArgumentError
from mx_ndarray import autograd, nd
from mx_symbol import sym
from mx_symbol.memory.branches import make_branches, may_pay, pays
from mx_symbol.memory.check import check_any_order
from mx_symbol.memory.order import Order
from mx_symbol.memory.plan import Step
from mx_symbol.runtime.cached_op import CachedOp


def steps_of(reads):
    """Steps that write a value each and read what is listed."""
    return [Step(tuple(values), (time,)) for time, values in enumerate(reads)]


def branches_of(reads, microseconds=100.0, cores=2, n_prepared=0, n_forward=None):
    takes = [microseconds] * len(reads)
    return make_branches(Order(steps_of(reads), n_forward), takes, n_prepared, cores)


def test_a_chain_is_one_branch_that_may_use_all_cores():
    (branch,) = branches_of([(), (0,), (1,), (0, 2)])
    assert (branch.steps, branch.after, branch.threads) == ((0, 1, 2, 3), (), 0)


def test_branches_are_branches_that_share_the_cores():
    branches = branches_of([(), (0,), (1,), (0,), (3,), (2, 4)])
    assert [s.steps for s in branches] == [(0,), (1, 2), (3, 4), (5,)]
    assert [s.after for s in branches] == [(), (0,), (0,), (1, 2)]
    assert [s.threads for s in branches] == [0, 1, 1, 0]
    assert branches_of([(), (0,), (1,), (0,), (3,), (2, 4)], cores=8)[1].threads == 4


def test_a_branch_that_is_not_worth_a_worker_stays_where_it_comes_from():
    assert [s.steps for s in branches_of([(), (0,), (0,), (1, 2)], microseconds=1.0)] == [(0, 1, 2, 3)]


def test_what_is_prepared_is_one_branch():
    branches = branches_of([(), (), (), (0,), (1,), (2, 3, 4)], n_prepared=3)
    assert [s.steps for s in branches] == [(0, 1, 2), (3,), (4,), (5,)]
    layers = branches_of([(), (), (0,), (1, 2), (0,), (1, 4)], n_prepared=2)
    assert [s.steps for s in layers] == [(0, 1), (2, 3), (4, 5)]


def test_forward_and_backward_are_branches_of_their_own():
    branches = branches_of([(), (0,), (1,), (2,)], n_forward=2)
    assert [(s.steps, s.after) for s in branches] == [((0, 1), ()), ((2, 3), ())]


@st.composite
def orders(draw):
    n = draw(st.integers(1, 30))
    reads = [draw(st.lists(st.integers(0, t - 1), max_size=3)) if t else [] for t in range(n)]
    takes = [draw(st.sampled_from([0.5, 5.0, 30.0, 300.0])) for _ in range(n)]
    return reads, takes, draw(st.integers(0, n))


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(orders(), st.sampled_from([2, 3, 16]))
def test_branches_keep_every_order(drawn, cores):
    reads, takes, n_forward = drawn
    order = Order(steps_of(reads), n_forward)
    branches = make_branches(order, takes, 0, cores)
    home = {time: i for i, branch in enumerate(branches) for time in branch.steps}
    assert sorted(home) == list(range(len(reads)))
    above = []
    for i, branch in enumerate(branches):
        assert all(other < i for other in branch.after)
        above.append(set(branch.after).union(*(above[other] for other in branch.after)))
        assert list(branch.steps) == sorted(branch.steps)
        assert len({time >= n_forward for time in branch.steps}) == 1
        assert 0 <= branch.threads < cores
        for time in branch.steps:
            for needed in order.direct[time]:
                crosses = (needed < n_forward) != (time < n_forward)
                assert crosses or home[needed] == i or home[needed] in above[i]


def test_side_by_side_pays_where_kernels_are_too_short_for_many_cores():
    reads = [(), *[(0,)] * 8, tuple(range(1, 9))]
    short, long = [30.0] * 10, [30_000.0] * 10
    branches = make_branches(Order(steps_of(reads)), short, 0, 8)
    assert may_pay(short, 8)
    assert pays(branches, short, 8)
    assert not may_pay(long, 8)
    assert not may_pay(short, 1)


def test_steps_that_wait_for_each_other_cannot_pay_side_by_side() -> None:
    times = [30.0] * 8
    chain = steps_of([(), *((i,) for i in range(7))])
    fork = steps_of([(), *((0,) for _ in range(7))])
    assert not may_pay(times, 8, chain)
    assert may_pay(times, 8, fork)
    assert not may_pay(times[:2], 8, steps_of([(), ()]), n_forward=1)  # backward waits for all of forward


# ---- executors ----


def branched(dropout=0.0):
    """Three branches of convolutions with states and, if wanted, random draws."""
    x = sym.Variable("data")
    outs = []
    for b in range(3):
        y = sym.Convolution(x, num_filter=4, kernel=(3, 3), pad=(1, 1), name=f"conv{b}")
        y = sym.Activation(sym.BatchNorm(y, name=f"norm{b}"), act_type="tanh")
        outs.append(sym.Dropout(y, p=dropout) if dropout else y)
    return sym.Convolution(sym.Concat(*outs, dim=1), num_filter=2, kernel=(1, 1), name="last")


def run(net, **planning):
    """What three training steps and an inference leave behind."""
    mx_ndarray.random.seed(5)
    executor = net.simple_bind(data=(2, 3, 12, 12), grad_req="add", **planning)
    rng = np.random.default_rng(0)
    for array in (*executor.arg_dict.values(), *executor.aux_dict.values()):
        array[:] = rng.uniform(0.1, 0.4, array.shape)
    for _ in range(3):
        executor.forward(is_train=True)
        executor.backward(nd.ones(executor.outputs[0].shape))
    arrays = [executor.outputs[0].copy(), *executor.grad_arrays, *executor.aux_arrays, *executor.forward()]
    return executor, [array.asnumpy() for array in arrays]


@pytest.fixture(autouse=True)
def several_cores(monkeypatch):
    monkeypatch.setattr("mx_symbol.graph.planning._workers", lambda context: 2)


@pytest.mark.parametrize("mode", ["least_memory", "most_parallel"])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.timeout(60)
def test_side_by_side_computes_the_same_to_the_bit(mode, dropout):
    net = branched(dropout)
    _, expected = run(net, branches="never")
    executor, found = run(net, memory_mode=mode, branches="always")
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_array_equal(got, want)
    schedule = executor._schedule(executor._mode(True))
    assert len(executor.branches()) > 3
    assert (len(schedule.plan.edges) > 0) == (mode == "least_memory")
    check_any_order(schedule.steps, schedule.sizes, schedule.external, schedule.plan, schedule.n_forward)


@pytest.mark.timeout(60)
def test_most_parallel_alone_only_needs_more_memory():
    net = branched()
    least, expected = run(net, branches="never")
    most, found = run(net, memory_mode="most_parallel", branches="never")
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_array_equal(got, want)
    for is_train in (True, False):
        assert most.memory_plan(is_train).total_bytes >= least.memory_plan(is_train).total_bytes
    x = sym.Variable("x")
    net = sym.add_n(*(sym.sum(sym.sin(x + i), axis=1) for i in range(4)))
    plans = [
        net.simple_bind(grad_req="null", passes="none", memory_mode=mode, x=(8, 512)).memory_plan()
        for mode in ("least_memory", "most_parallel")
    ]
    assert plans[0].total_bytes < 2 * 8 * 512 * 4  # one branch at a time
    assert plans[1].total_bytes >= 4 * 8 * 512 * 4


@pytest.mark.timeout(60)
def test_a_budget_and_branches_go_together():
    net = branched()
    free, expected = run(net, branches="never")
    budget = int(free.memory_plan().total_bytes * 0.8)
    tight, found = run(net, memory_budget=budget, branches="always")
    assert tight.memory_plan().total_bytes <= budget
    assert tight.branches()
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.timeout(60)
def test_cached_op_runs_branches_side_by_side():
    net = branched()
    rng = np.random.default_rng(1)
    shapes, _, states = net.infer_shape(data=(2, 3, 12, 12))
    table = dict(zip(net.list_arguments(), shapes, strict=True))
    table.update(zip(net.list_auxiliary_states(), states, strict=True))
    values = {name: rng.uniform(0.1, 0.4, shape).astype("float32") for name, shape in table.items()}
    results = []
    for choice in ("never", "always"):
        op = CachedOp(net, memory_mode="most_parallel", branches=choice)
        arrays = [nd.array(values[name]) for name in op.input_names]
        for array in arrays:
            array.attach_grad()
        for _ in range(2):
            with autograd.record():
                out = op(*arrays)
            out.backward()
        results.append([op(*arrays).asnumpy(), *(array.grad.asnumpy() for array in arrays)])
    for got, want in zip(*results, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.timeout(60)
def test_a_failure_in_a_branch_reaches_who_needs_it_and_no_other():
    a = sym.Variable("a")
    bad = sym.test_fails(sym.FullyConnected(a, num_hidden=64, name="left"), name="bad")
    good = sym.FullyConnected(sym.FullyConnected(a, num_hidden=512, name="one"), num_hidden=64, name="two")
    executor = sym.Group([good, bad + 1]).simple_bind(
        a=(512, 512), grad_req="null", memory_mode="most_parallel", branches="always"
    )
    for _ in range(2):
        outputs = executor.forward()
        assert outputs[0].asnumpy().shape == (512, 64)
        with pytest.raises(ZeroDivisionError, match="computed by test_fails"):
            outputs[1].asnumpy()


@pytest.mark.timeout(60)
def test_executors_that_share_an_arena_take_turns():
    net = branched()
    first, expected = run(net, branches="always")
    second = net.simple_bind(data=(2, 3, 12, 12), grad_req="null", shared_exec=first, branches="always")
    third = net.simple_bind(data=(2, 3, 12, 12), grad_req="null", shared_exec=first, branches="never")
    for other in (second, third):
        for name, array in first.aux_dict.items():
            other.aux_dict[name][:] = array
    for _ in range(10):
        results = [executor.forward()[0] for executor in (first, second, third)]
    for result in results:
        np.testing.assert_allclose(result.asnumpy(), expected[-1], rtol=1e-5, atol=1e-6)


def test_choices_that_do_not_exist_are_refused(monkeypatch):
    a = sym.Variable("a")
    with pytest.raises(ArgumentError, match="branches: expected one of auto, always, never, got 'sometimes'"):
        a.simple_bind(a=(1,), branches="sometimes")
    with pytest.raises(ArgumentError, match="memory_mode: expected one of least_memory"):
        CachedOp(a + 1, memory_mode="least")
    with pytest.raises(ArgumentError, match="memory_mode: expected least_memory, since there is a"):
        a.simple_bind(a=(1,), memory_mode="most_parallel", memory_budget=100)
    monkeypatch.setenv("MX_MEMORY_MODE", "none")
    with pytest.raises(ArgumentError, match=r"\[MX_MEMORY_MODE\]: expected one of"):
        (a + 1).simple_bind(a=(1,))


def test_the_environment_chooses(monkeypatch):
    monkeypatch.setenv("MX_MEMORY_MODE", "most_parallel")
    monkeypatch.setenv("MX_BRANCHES", "always")
    executor, _ = run(branched())
    assert executor.branches(True)
    assert executor.memory_plan().edges == ()


@pytest.mark.timeout(60)
def test_threads_that_call_one_function_do_not_mix_their_memory():
    x = sym.Variable("x")
    towers = []
    for t in range(3):
        y = x
        for d in range(3):
            y = sym.tanh(sym.dot(y, y, name=f"d{t}_{d}") * (0.1 + t))
        towers.append(y)
    op = CachedOp(sym.add_n(*towers), branches="always")
    inputs = [nd.array(np.random.default_rng(k).normal(size=(48, 48))) for k in range(4)]
    expected = [op(array).asnumpy() for array in inputs]

    def calls(k):
        return [op(inputs[k]) for _ in range(30)]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(calls, range(4)))
    for k, results in enumerate(found):
        for result in results:
            np.testing.assert_array_equal(result.asnumpy(), expected[k])
