# SPDX-License-Identifier: Apache-2.0
"""A store assigns mean gradients, and updates weights by another optimizer."""

from __future__ import annotations

from typing import Any

import pytest

import mx_kvstore
from mx_ndarray import nd
from mx_train import lr_scheduler, optimizer
from mx_train.optimizer.svrg import _SVRGOptimizer


def test_a_store_assigns_what_is_called_full_and_updates_the_rest() -> None:
    store = mx_kvstore.create("local")
    names = {0: "fullyconnected0_weight", 1: "fullyconnected0_weight_full"}
    store.set_optimizer(_SVRGOptimizer("sgd", param_idx2name=names, learning_rate=1.0))
    found = nd.zeros((3,)), nd.ones((3,))
    for key, (value, pushed) in enumerate(zip(found, (1, 2), strict=True)):
        store.init(key, value)
        for _ in range(2):
            store.push(key, nd.full((3,), pushed))
        store.pull(key, out=value)
    assert [value.asnumpy().tolist() for value in found] == [[-2] * 3, [2] * 3]


def test_steps_are_those_of_the_other_optimizer() -> None:
    settings = {
        "learning_rate": 0.1,
        "wd": 0.01,
        "momentum": 0.9,
        "param_idx2name": {0: "w_weight", 1: "b_bias"},
    }
    weights = []
    wrapped = optimizer.create("_SVRGOptimizer", default_optimizer="sgd", **settings)
    for made in (
        wrapped,
        _SVRGOptimizer(optimizer.create("sgd", **settings)),
        optimizer.create("sgd", **settings),
    ):
        updater, weight, bias = optimizer.get_updater(made), nd.ones((2,)), nd.ones((2,))
        for _ in range(3):
            updater(0, nd.ones((2,)), weight)
            updater(1, nd.ones((2,)), bias)
        assert made.num_update == 3
        weights.append((weight.asnumpy().tolist(), bias.asnumpy().tolist()))
    assert weights[0] == weights[1] == weights[2]
    assert isinstance(wrapped.default_opt, optimizer.SGD) and wrapped.default_opt.lr == wrapped.lr == 0.1


@pytest.mark.parametrize(("inner", "more"), [("adam", {}), ("lbsgd", {"batch_scale": 3})])
def test_states_say_what_the_other_optimizer_remembers(inner: str, more: dict[str, Any]) -> None:
    gradients = [nd.array([n - 3.0, 1.0 / (n + 1)]) for n in range(6)]
    weights = []
    for stop in (6, 4):
        updater, weight = (
            optimizer.get_updater(_SVRGOptimizer(inner, learning_rate=0.1, **more)),
            nd.zeros((2,)),
        )
        for gradient in gradients[:stop]:
            updater(0, gradient, weight)
        resumed = optimizer.get_updater(_SVRGOptimizer(inner, learning_rate=0.1, **more))
        resumed.set_states(updater.get_states())
        for gradient in gradients[stop:]:
            resumed(0, gradient, weight)
        weights.append(weight.asnumpy().tolist())
    assert weights[0] == weights[1]


def test_assigned_means_do_not_move_the_schedule() -> None:
    schedule = lr_scheduler.FactorScheduler(step=3, factor=0.1, base_lr=1)
    made = _SVRGOptimizer("sgd", lr_scheduler=schedule, param_idx2name={0: "w", 1: "w_full"})
    updater, weight = optimizer.get_updater(made), nd.ones((1,))
    for _ in range(10):
        updater(1, nd.ones((1,)), nd.zeros((1,)))
    updater(0, nd.ones((1,)), weight)
    assert weight.asscalar() == 0
