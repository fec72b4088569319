# SPDX-License-Identifier: Apache-2.0
"""Schedules under a memory budget: they fit, give the same bits, and repeat nothing that draws or counts."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from mx_core.errors import ArgumentError, MXNetError
from mx_ndarray import nd
from mx_symbol import AttrScope, sym
from mx_symbol.memory.check import check_plan
from mx_symbol.memory.recompute import _Simulation, fit_budget, least_memory
from mx_symbol.memory.schedule import make_schedule
from mx_symbol.passes.bound_graph import build

DATA = Path(__file__).parents[1] / "data"


def deep_network(depth=12, dropout=0.0):
    """Layers whose cheap values are worth computing twice."""
    x = sym.Variable("data")
    for i in range(depth):
        x = sym.FullyConnected(x, num_hidden=64, name=f"fc{i}")
        x = sym.BatchNorm(x, fix_gamma=False, momentum=0.5, name=f"bn{i}")
        x = sym.Activation(x, act_type="relu", name=f"relu{i}")
        x = sym.exp(sym.sin(x, name=f"sin{i}") * 0.1, name=f"exp{i}")
        if dropout:
            x = sym.Dropout(x, p=dropout, name=f"drop{i}")
    return sym.FullyConnected(x, num_hidden=3, name="last")


def trained(net, **options):
    """Outputs, gradients and auxiliary states after two steps, and the executor."""
    executor = net.simple_bind(data=(40, 64), **options)
    rng = np.random.default_rng(5)
    for name, array in executor.arg_dict.items():
        array[:] = rng.standard_normal(array.shape) * (1.0 if "gamma" in name else 0.3)
    for _ in range(2):
        executor.forward(is_train=True)
        executor.backward(nd.ones((40, 3)))
    arrays = [*executor.outputs, *executor.grad_arrays, *executor.aux_arrays]
    return [a.asnumpy() for a in arrays], executor


def half_the_memory_gives_the_same_bits():
    net = deep_network()
    expected, free = trained(net)
    planned = free.memory_plan().total_bytes
    found, tight = trained(net, memory_budget=planned // 2)
    assert tight.memory_plan().total_bytes <= planned // 2
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def backward_after_inference_agrees_too():
    net = deep_network(4)
    half = net.simple_bind(data=(40, 64)).memory_plan().total_bytes // 2
    grads = []
    for budget in (None, half):
        executor = trained(net, memory_budget=budget)[1]
        executor.forward(is_train=False)
        executor.backward(nd.ones((40, 3)))
        grads.append([a.asnumpy() for a in executor.grad_arrays])
    for a, b in zip(*grads, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.long
@pytest.mark.parametrize("check", [half_the_memory_gives_the_same_bits, backward_after_inference_agrees_too])
def test_the_bits_are_the_same(check):
    """With one thread: a budget changes what runs inline, and oneDNN's products in AVX2 sum by threads."""
    done = subprocess.run(
        [sys.executable, "-c", f"import {Path(__file__).stem} as tests; tests.{check.__name__}()"],
        cwd=Path(__file__).parent, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_random_draws_are_not_repeated():
    executor = trained(deep_network(4, dropout=0.5), memory_budget=150_000)[1]
    names = [node.name for node in executor.nodes()]
    assert any(name.endswith("_again") for name in names)
    assert not [name for name in names if name.startswith("drop") and name.endswith("_again")]


def test_inference_is_not_touched_by_a_budget():
    executor = deep_network().simple_bind(grad_req="null", data=(40, 64), memory_budget=30_000)
    assert not any(node.name.endswith("_again") for node in executor.nodes())


def test_reshape_keeps_the_budget():
    net = deep_network()
    budget = net.simple_bind(data=(40, 64)).memory_plan().total_bytes // 2
    executor = net.simple_bind(data=(20, 64), memory_budget=budget)
    larger = executor.reshape(allow_up_sizing=True, data=(40, 64))
    assert larger.memory_plan().total_bytes <= budget


@pytest.mark.parametrize("share", [0.75, 0.5])
def test_plans_of_a_real_network_fit_and_are_sound(share):
    net = sym.load(DATA / "resnet18_v1-symbol.json")
    requests = dict.fromkeys(net.list_arguments(), "write")
    graph = build(net.entries, {"data": (8, 3, 224, 224)}, {}, requests)
    budget = int(make_schedule(graph, True).plan.total_bytes * share)
    found = fit_budget(graph, budget)
    made = make_schedule(found.graph, True)
    check_plan(made.steps, made.sizes, made.external, made.plan)
    assert made.plan.total_bytes == found.total_bytes <= budget
    assert 0 < found.extra_cost < 0.15
    assert list(found.graph.grads) == list(graph.grads)


def test_a_budget_below_the_least_names_the_least():
    net = deep_network()
    with pytest.raises(MXNetError, match=r"memory_budget=5000: .* need \d+ bytes, and \d+ with"):
        net.simple_bind(data=(40, 64), memory_budget=5000)


@pytest.mark.parametrize("budget", [0, -1, 1.5, "1 GB", True])
def test_a_budget_is_a_positive_number_of_bytes(budget):
    with pytest.raises(ArgumentError, match="memory_budget: expected a positive number of bytes"):
        deep_network(1).simple_bind(data=(40, 64), memory_budget=budget)


def test_mirroring_repeats_cheap_nodes_alone(monkeypatch):
    net = deep_network()
    planned = net.simple_bind(data=(40, 64)).memory_plan().total_bytes
    monkeypatch.setenv("MXNET_BACKWARD_DO_MIRROR", "1")
    executor = net.simple_bind(data=(40, 64))
    assert executor.memory_plan().total_bytes < planned
    again = [node.op.name for node in executor.nodes() if node.name.endswith("_again")]
    assert again and "FullyConnected" not in again


def test_an_attribute_names_what_runs_again():
    def net(asked):
        x = sym.Variable("data")
        for i in range(6):
            with AttrScope(force_mirroring=str(i in asked)):
                x = sym.FullyConnected(x, num_hidden=64, name=f"fc{i}")
                x = sym.Activation(x, act_type="tanh", name=f"tanh{i}")
        return x

    plans = [net(asked).simple_bind(data=(400, 64)) for asked in ((), (1, 2))]
    plain, mirrored = (executor.memory_plan().total_bytes for executor in plans)
    assert mirrored < plain
    again = {node.name for executor in plans for node in executor.nodes() if node.name.endswith("_again")}
    assert again and again <= {f"{layer}{i}_again" for layer in ("fc", "tanh") for i in (1, 2)}


def test_the_least_memory_is_near_the_largest_operator():
    net = sym.Variable("data")
    for _ in range(10):
        net = sym.tanh(sym.sin(net))
    graph = build(net.entries, {"data": (1000,)}, {}, {"data": "write"})
    assert least_memory(graph).total_bytes <= 4 * 4032


def test_the_price_of_a_value_counts_each_node_that_runs_again_once():
    simulation = object.__new__(_Simulation)
    reads = [(), (0,), (0,), (4, 1, 2), ()]  # 3 is made of 1 and 2, which are both made of 0, and of 4
    simulation._maker, simulation._may = [0, 1, 2, 3, 4], [True] * 5
    simulation._costs, simulation._resident = [1.0, 2.0, 4.0, 8.0, 16.0], set()
    simulation._steps = [SimpleNamespace(reads=r) for r in reads]
    assert simulation._price(3, float("inf")) == 31
    simulation._resident = {1}
    assert simulation._price(3, float("inf")) == 29
    assert simulation._price(3, 9.0) >= 9, "counted up to the limit"
    simulation._may[0] = False
    assert simulation._price(3, float("inf")) == float("inf")
