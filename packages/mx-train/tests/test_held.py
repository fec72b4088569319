# SPDX-License-Identifier: Apache-2.0
"""Updates whose numbers are known are counted, and not run."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mx_ndarray import nd
from mx_train.lr_scheduler import CosineScheduler
from mx_train.optimizer import SGD, Optimizer, Updater, create
from mx_train.optimizer.held import HeldNumbers
from mx_train.optimizer.table import StateTable, arrays_of

INDICES = [0, 3]


class Replayed:
    """Updates of two weights as a captured step takes them: those that are not known run. Threads: one at a time."""

    def __init__(self, optimizer: Optimizer, **settings: Any) -> None:
        self.held, self.optimizer = HeldNumbers(optimizer, INDICES, **settings), optimizer
        self.run()

    def rates(self) -> bytes:
        """Those that an update together would give, and the decays."""
        optimizer = self.optimizer
        counts = optimizer._index_update_count
        plain = zip(INDICES, optimizer._get_lrs(INDICES), strict=True)
        rates = [rate * optimizer._rate_factor(counts[i]) for i, rate in plain]
        return np.float32(rates).tobytes() + np.float32(optimizer._get_wds(INDICES)).tobytes()

    def run(self) -> None:
        self.optimizer._update_count(INDICES)
        self.held.told(self.rates())

    def __call__(self) -> bool:
        """Whether the update was known."""
        arrays = self.held.arrays()
        if arrays is None:
            self.run()
            return False
        if arrays:
            assert arrays == self.rates()
        return True


@pytest.mark.parametrize("name", ["sgd", "nag", "signum", "rmsprop", "ftrl", "adagrad", "adadelta"])
def test_updates_are_counted(name: str) -> None:
    optimizer = create(name)
    known = Replayed(optimizer)
    assert known() and known()
    assert optimizer.num_update == 3 and optimizer._index_update_count == dict.fromkeys(INDICES, 3)


@pytest.mark.parametrize(
    "change",
    [
        lambda optimizer: setattr(optimizer, "wd", 0.1),
        lambda optimizer: setattr(optimizer, "momentum", 0.5),
        lambda optimizer: setattr(optimizer, "clip_gradient", 1.0),
        lambda optimizer: setattr(optimizer, "rescale_grad", 0.5),
        lambda optimizer: optimizer.set_lr_mult({3: 0.0}),
        lambda optimizer: optimizer.set_wd_mult({3: 0.0}),
    ],
    ids=["decay", "momentum", "limit", "scale", "factor of a rate", "factor of a decay"],
)
def test_a_change_is_seen_once(change: Callable[[Optimizer], object]) -> None:
    optimizer = create("sgd", momentum=0.9)
    known = Replayed(optimizer)
    assert known()
    change(optimizer)
    assert not known()
    assert optimizer.num_update == 3
    assert known()


def test_a_scale_that_the_update_would_set() -> None:
    scales = [0.5]
    known = Replayed(create("sgd"), rescale=lambda: scales[0])
    assert known()
    scales[0] = 0.25
    assert not known() and known()


def test_another_version_of_the_parameters() -> None:
    versions = [object()]
    known = Replayed(create("sgd"), version=lambda: versions[0])
    assert known()
    versions[0] = object()
    assert not known() and known()


def test_other_states_are_told() -> None:
    tables = [StateTable()]
    known = Replayed(create("sgd"), states=lambda: tables[0])
    assert known() and not known.held.moved()
    tables[0] = StateTable()
    assert known.held.arrays() is None and known.held.moved()
    known.run()
    tables[0][3] = None
    assert known.held.arrays() is None and known.held.moved()
    slow = Replayed(create("lamb"), states=lambda: tables[0])
    assert slow.held.arrays() is None and not slow.held.moved()


@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_rates_are_computed(name: str) -> None:
    """A rate that is set, and one of a schedule that changes at each update; `Replayed` compares the arrays."""
    for settings in ({"learning_rate": 0.1}, {"lr_scheduler": CosineScheduler(20, base_lr=0.1)}):
        optimizer = create(name, wd=0.01, **settings)
        known = Replayed(optimizer)
        assert all(known() for _ in range(5))
        if not optimizer.lr_scheduler:
            optimizer.set_learning_rate(0.05)
            assert known()
            optimizer.set_lr_mult({3: 0.3})
            assert not known()
            optimizer.set_learning_rate(0.07)
            assert known()
        assert optimizer.num_update == (6 if optimizer.lr_scheduler else 9)


def test_what_changes_a_table_of_states_is_counted() -> None:
    table = StateTable({0: 1, 1: 2, 2: 3})
    assert table.changes == 0
    changes: list[Callable[[], object]] = [
        lambda: table.__setitem__(0, 5), lambda: table.__delitem__(0), lambda: table.pop(1), table.popitem,
        lambda: table.setdefault(7, 8), lambda: table.update({1: 1}), lambda: table.__ior__({2: 2}), table.clear,
    ]  # fmt: skip
    for i, change in enumerate(changes):
        change()
        assert table.changes == i + 1
    updater = Updater(create("sgd"))
    updater.states = {0: None}
    assert isinstance(updater.states, StateTable) and isinstance(copy.deepcopy(updater).states, StateTable)
    first, second, third = (nd.zeros((1,)) for _ in range(3))
    found = arrays_of([first, (None, second), third, 5])
    assert [*map(id, found)] == [*map(id, (first, second, third))]


@pytest.mark.parametrize("known", [True, False])
def test_an_update_of_a_step_that_fails_does_not_count(known: bool) -> None:
    """One that was counted, and one that has run; `num_update` may be another one than the counts."""
    optimizer = create("adam")
    replayed = Replayed(optimizer)
    assert replayed()
    optimizer.num_update = 7
    if known:
        assert replayed.held.arrays() is not None
    else:
        replayed.held.begins()
        replayed.run()
    replayed.held.failed()
    assert optimizer.num_update == 7 and optimizer._index_update_count == dict.fromkeys(INDICES, 2)
    replayed.run()
    assert replayed() and optimizer._index_update_count == dict.fromkeys(INDICES, 4)


def test_rates_of_another_kind_are_not_computed() -> None:
    """Where the update made other arrays than those here, it runs when the rate changes."""
    optimizer = create("sgd", learning_rate=0.1)
    held = HeldNumbers(optimizer, INDICES)
    optimizer._update_count(INDICES)
    held.told(b"")
    assert held.arrays() == b""
    optimizer.set_learning_rate(0.2)
    assert held.arrays() is None
    known = Replayed(create("adam", learning_rate=np.float32(0.1)))
    assert not known(), "NumPy rounds each product to the type of the rate"


def test_counts_are_those_of_updates_that_ran() -> None:
    """Also those of one weight that was updated more often, and after a copy, a pickle and a new table."""
    optimizer = create("sgd")
    known = Replayed(optimizer)
    optimizer._update_count(INDICES[0])
    assert known() and known()
    assert copy.deepcopy(optimizer)._index_update_count == {0: 4, 3: 3}
    assert known()
    assert pickle.loads(pickle.dumps(optimizer))._index_update_count == {0: 5, 3: 4}
    assert known()
    optimizer._index_update_count = {0: 10, 3: 10}
    assert not known() and optimizer._index_update_count == {0: 11, 3: 11}, "another trainer may have counted"
    optimizer._index_update_count = {0: 10, 3: 10}
    assert not known()
    assert optimizer._index_update_count == {0: 11, 3: 11} and optimizer.num_update == 11
    adam = create("adam")
    unequal = Replayed(adam)
    adam._update_count(INDICES[0])
    assert not unequal()


def test_unequal_counts_under_a_schedule_are_run() -> None:
    """Weights of one update have different rates then."""
    optimizer = create("sgd", lr_scheduler=CosineScheduler(20, base_lr=0.1))
    known = Replayed(optimizer)
    optimizer._update_count(INDICES[0])
    assert not known() and not known()


def test_settings_of_other_types_are_seen() -> None:
    """A number of NumPy is compared; an array, which may change in place, is nothing that is known."""
    optimizer = create("sgd", wd=np.float32(0.5))
    known = Replayed(optimizer)
    assert known()
    optimizer.wd = np.float32(0.25)
    assert not known()
    assert HeldNumbers(create("sgd", wd=nd.array([0.5])), INDICES).arrays() is None


def test_who_counts_updates_runs_them() -> None:
    class Slower(SGD):
        """A class that extends another says nothing of its own numbers."""

    for optimizer in (Slower(), create("lbsgd"), create("lamb")):
        known = Replayed(optimizer)
        assert not known() and not known()
    held = HeldNumbers(create("sgd"), [])
    held.told(b"")
    assert held.arrays() is None
