# SPDX-License-Identifier: Apache-2.0
"""Graphs and trainers on a GPU, real or fake, against the same on the CPU; see `plans.py`."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from mx_core import cpu, gpu, num_gpus
from mx_core.errors import ArgumentError
from mx_ndarray import nd
from mx_symbol import AttrScope, sym
from mx_symbol.runtime.cached_op import CachedOp

GPUS = range(min(num_gpus(), 2))


def run(ctx: Any) -> list[np.ndarray]:
    """Outputs, gradients and updated weights after three steps."""
    x, w, b = (sym.Variable(name) for name in "xwb")
    y = sym.Activation(sym.FullyConnected(x, w, b, num_hidden=4), act_type="tanh")
    executor = sym.sum(y * y, axis=1).simple_bind(ctx=ctx, x=(3, 5))
    rng = np.random.default_rng(0)
    for array in executor.arg_dict.values():
        array[:] = rng.normal(size=array.shape)
    moments = {name: nd.zeros(a.shape, ctx=ctx) for name, a in executor.arg_dict.items()}
    for _ in range(3):
        (out,) = executor.forward(is_train=True)
        executor.backward([nd.ones((3,), ctx=ctx)])
        for name, weight in executor.arg_dict.items():
            nd.sgd_mom_update(
                weight, executor.grad_dict[name], moments[name], lr=0.05, momentum=0.9, out=weight
            )
    assert out.context == ctx
    return [a.asnumpy() for a in (out, *executor.grad_dict.values(), *executor.arg_dict.values())]


@pytest.mark.parametrize("number", GPUS)
def test_a_graph_that_is_trained(number: int) -> None:
    for found, wanted in zip(run(gpu(number)), run(cpu()), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_layers_are_not_fused_where_no_kernel_takes_them() -> None:
    net = sym.Activation(sym.FullyConnected(sym.Variable("x"), num_hidden=4), act_type="relu")
    executor = net.simple_bind(ctx=gpu(0), grad_req="null", x=(2, 3))
    for array in executor.arg_dict.values():
        array[:] = 1
    assert executor.forward()[0].asnumpy().tolist() == [[4] * 4] * 2


def test_a_folded_weight_that_is_being_written_is_folded_anew() -> None:
    """The normalization is folded into the layer once, until a write of the weight has begun."""
    net = sym.BatchNorm(sym.FullyConnected(sym.Variable("x"), num_hidden=4, name="fc"), name="norm")
    executor = net.simple_bind(ctx=gpu(0), grad_req="null", x=(2, 3))
    for array in (*executor.arg_dict.values(), *executor.aux_dict.values()):
        array[:] = 1
    weight, values = executor.arg_dict["fc_weight"], nd.ones((4, 3), ctx=gpu(0))
    for factor in range(2, 8):
        executor.forward()[0].wait_to_read()
        for _ in range(10):
            values = values * 1.0
        weight[:] = values * factor
        early = executor.forward()[0].asnumpy()
        nd.waitall()
        np.testing.assert_array_equal(early, executor.forward()[0].asnumpy())


def trained_in_groups(groups: dict[str, Any] | None, **settings: Any) -> tuple[Any, list[np.ndarray]]:
    """An executor of layers in two groups, and its outputs and gradients after two steps."""
    net = sym.Variable("x")
    for i in range(8):
        with AttrScope(ctx_group=("first", "second")[i // 4]):
            net = sym.FullyConnected(net, num_hidden=6, name=f"fc{i}")
            net = sym.Activation(net, act_type="tanh", name=f"tanh{i}")
    executor = sym.sum(net * net, axis=1).simple_bind(
        cpu(),
        {"x": "write", "fc0_weight": "write", "fc5_weight": "add"},
        group2ctx=groups,
        x=(5, 6),
        **settings,
    )
    rng = np.random.default_rng(3)
    for array in executor.arg_dict.values():
        array[:] = rng.normal(size=array.shape) * 0.5
    for _ in range(2):
        (out,) = executor.forward(is_train=True)
        executor.backward([nd.ones((5,))])
    return executor, [a.asnumpy() for a in (out, *executor.grad_dict.values()) if a is not None]


@pytest.mark.parametrize("number", GPUS)
def test_layers_on_processor_and_gpu(number: int) -> None:
    groups = {"first": gpu(number), "second": cpu()}
    executor, found = trained_in_groups(groups)
    _, wanted = trained_in_groups(None)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    assert executor.arg_dict["fc1_weight"].context == executor.grad_dict["fc0_weight"].context == gpu(number)
    assert executor.memory_plan().devices[gpu(number)].total_bytes > 0
    seen = {}
    executor.set_monitor_callback(lambda name, array: seen.setdefault(name, array.context))
    executor.forward(is_train=True)
    assert seen["tanh3_output"] == gpu(number) and seen["tanh3_0_copy_output"] == cpu()
    left = 1
    for step in range(100):
        left = executor.partial_forward(is_train=False, step=step)
        if not left:
            break
    np.testing.assert_allclose(executor.outputs[0].asnumpy(), wanted[0], rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(len(GPUS) < 2, reason="needs two GPUs")
def test_layers_on_two_gpus_under_a_budget() -> None:
    groups = {"first": gpu(0), "second": gpu(1)}
    free, _ = trained_in_groups(groups)
    budget = max(plan.total_bytes for plan in free.memory_plan().devices.values()) - 64
    tight, found = trained_in_groups(groups, memory_budget=budget)
    assert all(plan.total_bytes <= budget for plan in tight.memory_plan().devices.values())
    for one, other in zip(found, trained_in_groups(None)[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("place", ["gpu(0)", "cpu(0)"])
def test_arrays_of_another_device_are_refused(place: str) -> None:
    here, there = (gpu(0), cpu()) if place == "gpu(0)" else (cpu(), gpu(0))
    net = sym.BatchNorm(sym.Variable("x"), name="norm")
    arguments = {"x": (4, 2), **dict.fromkeys(("norm_gamma", "norm_beta"), (2,))}
    states = dict.fromkeys(("norm_moving_mean", "norm_moving_var"), (2,))
    tables: dict[str, dict[str, Any]] = {"args": {n: nd.ones(s, ctx=here) for n, s in arguments.items()}}
    tables["args_grad"] = {"x": nd.zeros((4, 2), ctx=here)}
    tables["aux_states"] = {n: nd.ones(s, ctx=here) for n, s in states.items()}
    net.bind(here, **tables).forward(is_train=True)[0].wait_to_read()
    for what, table in tables.items():
        name, array = next(iter(table.items()))
        other = {**tables, what: {**table, name: array.as_in_context(there)}}
        with pytest.raises(
            ArgumentError, match=rf"{what} {name}: expected an array on {re.escape(place)}, got one"
        ):
            net.bind(here, **other)
    shared = net.simple_bind(there, x=(4, 2))
    with pytest.raises(
        ArgumentError, match=rf"norm_gamma: expected an array on {re.escape(place)} in the shared"
    ):
        net.simple_bind(here, x=(4, 2), shared_exec=shared, shared_arg_names=["norm_gamma"])
    buffer: dict[str, Any] = {}
    net.simple_bind(there, x=(4, 2), shared_buffer=buffer)
    net.simple_bind(here, x=(4, 2), shared_buffer=buffer).forward(is_train=True)[0].wait_to_read()
    assert {array.context for array in buffer.values()} == {here}
    with pytest.raises(ArgumentError, match="array 1 lies on"):
        CachedOp(sym.Variable("x") + sym.Variable("y"))(nd.ones((2,), ctx=here), nd.ones((2,), ctx=there))
    assert (nd.ones((2,), ctx=gpu(0)) + 1).asnumpy().tolist() == [2, 2]


def test_a_classifier_learns() -> None:
    """Two layers and a softmax tell apart four clouds of points."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 64)
    points = np.stack([labels % 2, labels // 2], 1) * 4 - 2 + rng.normal(size=(64, 2)) * 0.3
    net = sym.Activation(sym.FullyConnected(sym.Variable("data"), num_hidden=16, name="fc1"), act_type="relu")
    net = sym.SoftmaxOutput(
        sym.FullyConnected(net, num_hidden=4, name="fc2"), name="softmax", normalization="batch"
    )
    executor = net.simple_bind(gpu(0), data=(64, 2))
    weights = {n: a for n, a in executor.arg_dict.items() if n not in ("data", "softmax_label")}
    for name in weights:
        weights[name][:] = rng.normal(size=weights[name].shape) * 0.3
    for _ in range(60):
        executor.forward(is_train=True, data=points, softmax_label=labels)
        executor.backward()
        for name, weight in weights.items():
            nd.sgd_update(weight, executor.grad_dict[name], lr=0.5, out=weight)
    (found,) = executor.forward()
    assert (found.asnumpy().argmax(1) == labels).mean() > 0.98
