# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of several workers: they go on from the last one that all have.

The tests of mx-kvstore-mpi kill the workers of a job.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mx_kvstore
from mx_core.errors import ArgumentError, MXNetError
from mx_io.io import NDArrayIter
from mx_ndarray import random
from mx_symbol import sym
from mx_train.checkpoint import Training
from mx_train.module import Module

VALUES = np.random.RandomState(1).uniform(-1, 1, (20, 3)).astype(np.float32)


class Workers(mx_kvstore.KVStoreBase):
    """A store of two threads, which are called by their ranks."""

    together = threading.Barrier(2, timeout=20.0)
    pushed: list[Any] = [None, None]

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        out[:] = self._all(value)[0]

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        (value if out is None else out)[:] = sum(self._all(value))

    def _all(self, value: Any) -> list[Any]:
        self.pushed[self.rank] = value.asnumpy()
        self.together.wait()
        found = list(self.pushed)
        self.together.wait()
        return found

    type = "workers"
    num_workers = 2

    @property
    def rank(self) -> int:
        return int(threading.current_thread().name)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    mx_kvstore.KVStoreBase.register(Workers)
    yield
    del mx_kvstore.KVStoreBase.kv_registry["workers"]


def module() -> Module:
    net = sym.FullyConnected(sym.var("data"), num_hidden=2, name="fc")
    return Module(sym.SoftmaxOutput(net, name="softmax"))


class Stopped(Exception):
    pass


def trained(training: Training, network: Module, stop: int = 100) -> dict[str, Any]:
    """The parameters after three epochs of four batches; or stops after some."""
    done = 0

    def count(_: Any) -> None:
        nonlocal done
        done += 1
        if done == stop:
            raise Stopped

    random.seed(3)
    network.fit(
        training.watch(NDArrayIter(VALUES, np.arange(20) % 2, 5)), begin_epoch=training.epoch, num_epoch=3,
        optimizer="adam", batch_end_callback=count,
    )  # fmt: skip
    return {name: value.asnumpy().tolist() for name, value in network.get_params()[0].items()}


def stopped(folder: Path, stop: int, period: int, keep: int = 2) -> None:
    """Leaves the checkpoints of a training that is stopped in a batch."""
    network = module()
    with pytest.raises(Stopped):
        trained(Training(folder, network, period=period, keep=keep), network, stop)


def of_both(do: Callable[[int], Any]) -> list[Any]:
    """What a function of the rank gives in two workers, or raises."""
    found: list[Any] = [None, None]

    def run(rank: int) -> None:
        try:
            found[rank] = do(rank)
        except MXNetError as error:
            found[rank] = error

    threads = [threading.Thread(target=run, args=(rank,), name=str(rank)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def steps(folder: Path) -> list[str]:
    return sorted(path.name.removeprefix("checkpoint-").lstrip("0") for path in folder.iterdir())


@pytest.mark.parametrize(("mine", "other", "place"), [(5, 6, (1, 0)), (8, 7, (1, 2)), (7, 7, (1, 2))])
def test_all_go_back_to_the_last_one_that_all_have(
    mine: int, other: int, place: tuple[int, int], tmp_path: Path
) -> None:
    """`fit` asks for a batch before it tells of the former one, so one that is stopped at step 4 has a checkpoint of it."""
    whole = module()
    expected = trained(Training(tmp_path / "whole", whole), whole)
    for rank, stop in enumerate((mine, other)):
        stopped(tmp_path / str(rank), stop, 2)
    networks = [module(), module()]
    trainings = of_both(
        lambda rank: Training(tmp_path / str(rank), networks[rank], period=2, kvstore="workers")
    )
    for rank, training in enumerate(trainings):
        assert (training.epoch, training.batch) == place and training.resumed
        assert trained(training, networks[rank]) == expected


def test_later_ones_are_set_aside(tmp_path: Path) -> None:
    for rank, stop in enumerate((3, 5)):
        stopped(tmp_path / str(rank), stop, 2)
    assert [steps(tmp_path / str(rank)) for rank in range(2)] == [["2.params"], ["2.params", "4.params"]]
    of_both(lambda rank: Training(tmp_path / str(rank), module(), kvstore="workers"))
    assert steps(tmp_path / "1") == ["2.params", "4.params.passed-over"]


def test_all_begin_anew_if_one_was_stopped_before_its_first_checkpoint(tmp_path: Path) -> None:
    stopped(tmp_path / "0", 3, 2)
    trainings = of_both(lambda rank: Training(tmp_path / str(rank), module(), kvstore=Workers()))
    assert [(each.epoch, each.batch, each.resumed) for each in trainings] == [(0, 0, False)] * 2
    assert steps(tmp_path / "0") == ["2.params.passed-over"]


@pytest.mark.parametrize(
    ("other", "words"), [(1, "another worker has none"), (3, "the last one of another worker is of step 2")]
)
def test_a_folder_that_is_lost_is_told_and_nothing_is_set_aside(
    other: int, words: str, tmp_path: Path
) -> None:
    stopped(tmp_path / "0", 7, 1)
    stopped(tmp_path / "1", other, 2)
    refused, training = of_both(lambda rank: Training(tmp_path / str(rank), module(), kvstore="workers"))
    assert isinstance(refused, MXNetError) and f"is of step 7, and {words}: has its folder" in str(refused)
    assert isinstance(training, Training)
    assert steps(tmp_path / "0") == ["6.params", "7.params"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kvstore": "dist_async"}, "kvstore: workers of 'dist_async' do not wait for each other"),
        ({"kvstore": "workers", "keep": 1}, "keep: expected at least 2 with a kvstore"),
        ({"kvstore": 3}, "kvstore: expected a store or its name, got 3"),
    ],
)
def test_settings_without_a_common_checkpoint_are_refused(
    settings: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(ArgumentError, match=words):
        Training(tmp_path / "new", module(), **settings)
    assert not (tmp_path / "new").exists()


def test_a_store_of_one_process_changes_nothing(tmp_path: Path) -> None:
    stopped(tmp_path, 5, 1)
    training = Training(tmp_path, module(), kvstore=mx_kvstore.create("local"))
    assert (training.epoch, training.batch, training.resumed) == (1, 1, True)
