# SPDX-License-Identifier: Apache-2.0
"""Updates whose numbers are those of the last one are counted, and not run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mx_train.lr_scheduler import FactorScheduler
from mx_train.optimizer import SGD, Adam, Optimizer, create
from mx_train.optimizer.held import HeldNumbers

INDICES = [0, 3]


def held(optimizer: Optimizer) -> HeldNumbers:
    """After an update, whose numbers it has seen."""
    made = HeldNumbers(optimizer, INDICES)
    assert not made()
    optimizer._update_count(INDICES)
    return made


@pytest.mark.parametrize("name", ["sgd", "nag", "signum", "rmsprop", "ftrl", "adagrad", "adadelta"])
def test_updates_are_counted(name: str) -> None:
    optimizer = create(name)
    unchanged = held(optimizer)
    assert unchanged() and unchanged()
    assert optimizer.num_update == 3 and optimizer._index_update_count == dict.fromkeys(INDICES, 3)


@pytest.mark.parametrize(
    "change",
    [
        lambda optimizer: optimizer.set_learning_rate(0.5),
        lambda optimizer: setattr(optimizer, "wd", 0.1),
        lambda optimizer: setattr(optimizer, "momentum", 0.5),
        lambda optimizer: setattr(optimizer, "clip_gradient", 1.0),
        lambda optimizer: setattr(optimizer, "rescale_grad", 0.5),
        lambda optimizer: optimizer.set_lr_mult({3: 0.0}),
        lambda optimizer: optimizer.set_wd_mult({3: 0.0}),
    ],
    ids=["rate", "decay", "momentum", "limit", "scale", "factor of a rate", "factor of a decay"],
)
def test_a_change_is_seen_once(change: Callable[[Optimizer], object]) -> None:
    optimizer = create("sgd", momentum=0.9)
    unchanged = held(optimizer)
    assert unchanged()
    change(optimizer)
    assert not unchanged()
    assert optimizer.num_update == 2, "who runs the update counts it"
    assert unchanged()


def test_a_scale_that_the_update_would_set() -> None:
    unchanged = HeldNumbers(create("sgd"), INDICES)
    assert not unchanged(0.5) and unchanged(0.5) and not unchanged(0.25)


def test_a_schedule_is_followed() -> None:
    optimizer = create("sgd", lr_scheduler=FactorScheduler(step=3, factor=0.5, base_lr=1.0))
    unchanged, ran = HeldNumbers(optimizer, INDICES), []
    for _ in range(9):
        if not unchanged():
            optimizer._update_count(INDICES)
            ran.append(optimizer.num_update)
    other = FactorScheduler(step=3, factor=0.5, base_lr=1.0)
    rates = [other(i) for i in range(1, 10)]
    assert ran == [i + 1 for i in range(9) if i == 0 or rates[i] != rates[i - 1]]


def test_who_counts_updates_runs_them() -> None:
    class Slower(SGD):
        """A class that extends another says nothing of its own numbers."""

    for optimizer in (Adam(), Slower(), create("lbsgd"), create("lamb")):
        unchanged = HeldNumbers(optimizer, INDICES)
        assert not unchanged() and not unchanged()
        assert optimizer.num_update == 0
    assert not HeldNumbers(create("sgd"), [])()
