# SPDX-License-Identifier: Apache-2.0
"""A Trainer whose optimizer runs in a distributed store goes on from loaded states."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mx_gluon import Parameter, Trainer
from mx_gluon.errors import StaleGradientError
from mx_kvstore import KVStore
from mx_ndarray import autograd
from mx_train import initializer


class Distant(KVStore):
    """A store of one worker that is called distributed, and takes the optimizer as it is when it is given."""

    def __init__(self) -> None:
        super().__init__("dist_sync")

    def set_optimizer(self, optimizer: Any) -> None:
        super().set_optimizer(copy.deepcopy(optimizer))


def trainer() -> tuple[Parameter, Trainer]:
    weight = Parameter("weight", shape=(2,))
    weight.initialize(initializer.One())
    made = Trainer([weight], "sgd", {"learning_rate": 0.5, "momentum": 0.9}, kvstore=Distant())
    return weight, made


def step(weight: Parameter, made: Trainer, batch_size: int) -> None:
    with autograd.record():
        value = (weight.data() * 8).sum()
    value.backward()
    made.step(batch_size)


@pytest.mark.parametrize("saves_first", [False, True])
def test_states_are_loaded_before_the_first_step(tmp_path: Path, saves_first: bool) -> None:
    weight, made = trainer()
    step(weight, made, 4)
    made.save_states(tmp_path / "states")
    values = weight.data().copy()
    step(weight, made, 4)

    again, resumed = trainer()
    again.set_data(values)
    if saves_first:
        resumed.save_states(tmp_path / "nothing yet")
    resumed.load_states(tmp_path / "states")
    (tmp_path / "states").unlink()  # nothing reads it later
    step(again, resumed, 4)
    np.testing.assert_array_equal(again.data().asnumpy(), weight.data().asnumpy())
    with pytest.raises(StaleGradientError, match="by 4 since the first step, got 2"):
        step(again, resumed, 2)
    step(again, resumed, 4)


def test_states_may_be_saved_before_the_first_step(tmp_path: Path) -> None:
    weight, made = trainer()
    made.save_states(tmp_path / "states")
    step(weight, made, 4)
    np.testing.assert_array_equal(weight.data().asnumpy(), [0, 0])
