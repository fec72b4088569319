# SPDX-License-Identifier: Apache-2.0
"""A training that goes on from saved states makes the steps that it would have made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mx_core.errors import ArgumentError, FileFormatError
from mx_ndarray import NDArray, nd
from mx_train import lr_scheduler, optimizer
from mx_train.optimizer.states import dump_states, read_states

NAMES = {0: "fc_weight", 1: "fc_bias", 2: "bn_gamma"}
MOMENTUM: dict[str, Any] = {"momentum": 0.9}
GATHERS = {**MOMENTUM, "batch_scale": 2, "warmup_epochs": 2, "updates_per_epoch": 3}
OPTIMIZERS: list[tuple[str, dict[str, Any]]] = [
    ("sgd", MOMENTUM), ("nag", MOMENTUM), ("adam", {}), ("adagrad", {}), ("rmsprop", {}), ("rmsprop", {"centered": True}),
    ("adadelta", {}), ("ftrl", {}), ("signum", {}), ("dcasgd", MOMENTUM), ("adamax", {}), ("nadam", {}), ("ftml", {}),
    ("lamb", {}), ("lars", MOMENTUM), ("lbsgd", MOMENTUM), ("lbsgd", GATHERS), ("lbsgd", GATHERS | {"warmup_strategy": "lars"}),
]  # fmt: skip
SCHEDULES: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "factor": lambda: lr_scheduler.FactorScheduler(step=2, factor=0.5, base_lr=0.1),
    "multi": lambda: lr_scheduler.MultiFactorScheduler(step=[3, 5, 6], factor=0.1, base_lr=0.1),
    "poly": lambda: lr_scheduler.PolyScheduler(max_update=12, base_lr=0.1),
}


def updater(name: str, settings: dict[str, Any], schedule: str) -> optimizer.Updater:
    made = optimizer.create(name, param_idx2name=NAMES, lr_scheduler=SCHEDULES[schedule](), **settings)
    return optimizer.get_updater(made)


def go_on(update: optimizer.Updater, weights: list[NDArray], begin: int, end: int) -> list[bytes]:
    """The bits of the weights after some steps."""
    for step in range(begin, end):
        rng = np.random.default_rng(step)
        for index, weight in enumerate(weights):
            update(index, nd.array(rng.normal(size=4)), weight)
    return [weight.asnumpy().tobytes() for weight in weights]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("name", "settings"), OPTIMIZERS)
def test_the_steps_are_the_same(name: str, settings: dict[str, Any], schedule: str) -> None:
    straight = updater(name, settings, schedule)
    weights = [nd.array(np.random.default_rng(i + 50).normal(size=4)) for i in NAMES]
    go_on(straight, weights, 0, 5)
    states, dumped = straight.get_states(), straight.get_states(dump_optimizer=True)
    kept = [weight.copy() for weight in weights]
    expected = go_on(straight, weights, 5, 8)
    for saved in (states, dumped):
        resumed = updater(name, settings, schedule)
        resumed.set_states(saved)
        assert go_on(resumed, [weight.copy() for weight in kept], 5, 8) == expected
    straight.set_states(states)  # back to the checkpoint in the same process
    assert go_on(straight, kept, 5, 8) == expected


def test_states_from_before_the_first_update_go_back_to_it() -> None:
    update = updater("adam", {}, "factor")
    weights = [nd.ones((4,)) for _ in NAMES]
    for states in (update.get_states(), update.get_states(dump_optimizer=True)):
        first = go_on(update, [weight.copy() for weight in weights], 0, 5)
        update.set_states(states)
        assert update.optimizer.num_update == 0
        assert go_on(update, [weight.copy() for weight in weights], 0, 5) == first
        update.set_states(states)


@pytest.mark.parametrize(
    ("name", "settings"), [("adam", {}), ("lars", MOMENTUM), ("lbsgd", MOMENTUM), ("lbsgd", GATHERS)]
)
def test_states_by_name_go_on_by_index(name: str, settings: dict[str, Any]) -> None:
    by_name, by_index = (updater(name, settings, "multi") for _ in range(2))
    weight = nd.ones((2,))
    for i in range(5):
        by_name("fc_weight", nd.ones((2,)) * (i + 1), weight)
    by_index.set_states(by_name.get_states())
    other = weight.copy()
    for _ in range(3):
        by_name("fc_weight", nd.ones((2,)), weight)
        by_index(0, nd.ones((2,)), other)
    np.testing.assert_array_equal(other.asnumpy(), weight.asnumpy())
    assert by_index.optimizer._index_update_count == {0: 8}


@pytest.mark.parametrize("counts", [{0: "x"}, [1], {0: 1.5}, {0: True}, {0: -5}, {0: 10**400}])
def test_counts_are_counts(counts: object) -> None:
    update = updater("adam", {}, "factor")
    update(0, nd.ones((4,)), nd.ones((4,)))
    states = read_states(update.get_states()) | {"__update_counts__": counts}
    with pytest.raises(FileFormatError, match="expected counts of updates by parameter, got"):
        update.set_states(dump_states(states))
    assert update.optimizer.num_update == 1


def test_what_is_remembered_has_its_type() -> None:
    lars = optimizer.get_updater(optimizer.create("lars", momentum=0.9))
    lars(0, nd.ones((2,)), nd.ones((2,)))
    states = read_states(lars.get_states())
    states |= {"__remembered__": {"_last_rates": {0: "fast"}}, "__update_counts__": {0: 7}}
    with pytest.raises(FileFormatError, match="_last_rates: expected a dict of float, got {0: 'fast'}"):
        lars.set_states(dump_states(states))
    assert lars.optimizer.num_update == 1  # nothing of it was taken


def test_lists_are_updated_one_by_one() -> None:
    at_once, single = updater("sgd", MOMENTUM, "factor"), updater("sgd", MOMENTUM, "factor")
    weights, others = ([nd.ones((4,)) * i for i in NAMES] for _ in range(2))
    for step in range(3):
        grads = [nd.array(np.arange(4.0) + step + i) for i in NAMES]
        at_once(list(NAMES), grads, weights)
        for index, grad in enumerate(grads):
            single(index, grad, others[index])
    for one, other in zip(weights, others, strict=True):
        np.testing.assert_array_equal(one.asnumpy(), other.asnumpy())
    with pytest.raises(
        ArgumentError, match="expected as many gradients and weights as indices, got 2, 1 and 3"
    ):
        at_once([0, 1], grads[:1], weights)


def test_states_by_index_go_on_by_name() -> None:
    """A file of one device, used on several."""
    by_index, by_name = (updater("adam", {}, "none") for _ in range(2))
    weight, other = nd.ones((2,)), nd.ones((2,))
    for _ in range(2):
        by_index(1, nd.ones((2,)), weight)
        by_index(1, nd.ones((2,)), other)
    by_name.set_states(by_index.get_states())
    by_index(1, nd.ones((2,)), weight)
    before = other.copy()
    by_name("fc_bias", nd.ones((2,)), other)
    assert list(by_name.states) == ["fc_bias"] and by_name.optimizer._index_update_count == {"fc_bias": 5}
    assert (other < before).asnumpy().all()


def test_states_of_several_devices_are_those_of_the_first_if_they_have_the_same_shapes() -> None:
    update = updater("sgd", MOMENTUM, "none")
    copies = {2 * i + k: nd.full((i + 1,), i) for i in range(2) for k in range(2)}
    update.set_states(dump_states(copies))
    update.take_first_of_each(2)
    assert {key: state.asnumpy().tolist() for key, state in update.states.items()} == {0: [0], 1: [1, 1]}
    update.set_states(
        dump_states({0: nd.ones((2, 2)), 1: nd.ones((2,)), 2: nd.ones((3, 2)), 3: nd.ones((3,))})
    )
    update.take_first_of_each(2)  # four parameters of another network, not two devices
    assert sorted(update.states) == [0, 1, 2, 3]
