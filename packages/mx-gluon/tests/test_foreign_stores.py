# SPDX-License-Identifier: Apache-2.0
"""A store that knows nothing of ours but the contract passes its tests and trains, in Module and in Trainer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from mx_core import cpu
from mx_core.errors import MXNetError
from mx_core.testing import KVStoreContract
from mx_gluon import Parameter, Trainer, amp, nn
from mx_gluon import loss as losses
from mx_gluon.errors import RefusedError
from mx_io import io
from mx_kvstore import KVStoreBase
from mx_kvstore.keys import pairs
from mx_kvstore.updater import updater_for
from mx_ndarray import autograd, nd, random
from mx_symbol import amp as graphs
from mx_symbol import passes, sym
from mx_symbol.passes import cast_rules
from mx_train.module import Module


class Blackboard(KVStoreBase):
    """Of workers that have the same data; values are NumPy arrays, and every call waits for its arrays."""

    rank = 0
    type = "dist_blackboard"

    def __init__(self, num_workers: int, runs_optimizers: bool) -> None:
        self.workers, self.runs = num_workers, runs_optimizers
        self.values: dict[Any, np.ndarray[Any, Any]] = {}
        self.updater: Any = None

    @property
    def num_workers(self) -> int:
        return self.workers

    def barrier(self) -> None:
        pass

    def is_capable(self, capability: str) -> bool:  # type: ignore[override]
        return self.runs and capability == KVStoreBase.OPTIMIZER

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        given = pairs(key, value, "value")
        for name, _ in given:
            if name in self.values:
                raise MXNetError(f"[Blackboard] key {name!r} is there already")
        for name, (array,) in given:
            self.values[name] = array.asnumpy()
        self.fill(pairs(key, out, "out"))

    def fill(self, wanted: Any) -> None:
        for name, arrays in wanted:
            for array in arrays:
                array[:] = self.values[name]

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        given = pairs(key, value, "value")
        for name, arrays in given:
            if name not in self.values:
                raise MXNetError(f"[Blackboard] key {name!r} is not there")
            stored = self.values[name]
            for array in arrays:
                if (array.shape, np.dtype(array.dtype)) != (stored.shape, stored.dtype):
                    raise MXNetError(f"[Blackboard] key {name!r}: expected {stored.shape}, {stored.dtype}")
        for name, arrays in given:
            total = sum(array.asnumpy() for array in arrays) * self.workers
            if self.updater is not None:
                weight = nd.array(self.values[name], dtype=self.values[name].dtype)
                self.updater(name, nd.array(total, dtype=total.dtype), weight)
                total = weight.asnumpy()
            self.values[name] = total.astype(self.values[name].dtype)
        self.fill(given if out is None else pairs(key, out, "out"))

    def set_optimizer(self, optimizer: Any) -> None:
        if not self.runs:
            super().set_optimizer(optimizer)
        self.updater = updater_for(optimizer)

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        if self.updater is None:
            super().save_optimizer_states(fname)
        with open(fname, "wb") as file:
            file.write(self.updater.get_states(dump_optimizer))

    def load_optimizer_states(self, fname: str) -> None:
        with open(fname, "rb") as file:
            self.updater.set_states(file.read())


class TestSums(KVStoreContract):
    def make_store(self) -> Any:
        return Blackboard(3, runs_optimizers=False)

    def array(self, values: np.ndarray[Any, Any]) -> Any:
        return nd.array(values, dtype=values.dtype)


class TestRunsOptimizers(TestSums):
    def make_store(self) -> Any:
        return Blackboard(2, runs_optimizers=True)


CONTEXTS = pytest.mark.parametrize("contexts", [[cpu()], [cpu(0), cpu(1)]], ids=["one", "two"])
RUNS = pytest.mark.parametrize("runs_optimizers", [False, True])
SETTINGS = {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.01}


def problem() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    x = np.random.default_rng(3).normal(size=(40, 5)).astype(np.float32)
    return x, (x.sum(axis=1) > 0).astype(np.float32)


@CONTEXTS
@RUNS
def test_module_fits_as_without_a_store(contexts: Any, runs_optimizers: bool, tmp_path: Any) -> None:
    x, y = problem()
    hidden = sym.Activation(
        sym.FullyConnected(sym.Variable("data"), num_hidden=6, name="fc1"), act_type="tanh"
    )
    net = sym.SoftmaxOutput(sym.FullyConnected(hidden, num_hidden=2, name="fc2"), name="softmax")
    weights = []
    for store in (None, Blackboard(4, runs_optimizers)):
        random.seed(3)
        np.random.seed(3)
        module = Module(net, context=contexts)
        module.fit(io.NDArrayIter(x, y, 20), num_epoch=3, kvstore=store, optimizer_params=SETTINGS)
        weights.append({name: array.asnumpy() for name, array in module.get_params()[0].items()})
        module.save_optimizer_states(str(tmp_path / "module.states"))
        module.load_optimizer_states(str(tmp_path / "module.states"))
    for name, array in weights[0].items():
        np.testing.assert_allclose(weights[1][name], array, rtol=1e-4, atol=1e-6)


@CONTEXTS
@RUNS
def test_trainer_steps_as_without_a_store(contexts: Any, runs_optimizers: bool, tmp_path: Any) -> None:
    x, y = problem()
    weights = []
    for store in ("local", Blackboard(4, runs_optimizers)):
        workers = store.num_workers if isinstance(store, Blackboard) else 1
        random.seed(3)
        net = nn.HybridSequential(prefix="net_")
        with net.name_scope():
            net.add(nn.Dense(6, activation="tanh"), nn.Dense(2))
        net.initialize(ctx=contexts)
        trainer = Trainer(net.collect_params(), "sgd", SETTINGS, kvstore=store)
        loss = losses.SoftmaxCrossEntropyLoss()
        for _ in range(3):
            parts = zip(np.split(x, len(contexts)), np.split(y, len(contexts)), contexts, strict=True)
            with autograd.record():
                computed = [loss(net(nd.array(a, ctx=c)), nd.array(b, ctx=c)) for a, b, c in parts]
            for each in computed:
                each.backward()
            trainer.step(len(x) * workers)
        trainer.save_states(str(tmp_path / "trainer.states"))
        trainer.load_states(str(tmp_path / "trainer.states"))
        weights.append([param.data(contexts[0]).asnumpy() for param in net.collect_params().values()])
    for found, expected in zip(weights[1], weights[0], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


@pytest.fixture
def half() -> Iterator[None]:
    graphs.init("float16")
    yield
    passes.always("amp", False)
    cast_rules.use(cast_rules.Lists())


def scaled_step(trainer: Trainer, weight: Any, factor: float) -> None:
    with autograd.record(), amp.scale_loss((weight.data() * factor).sum(), trainer) as scaled:
        scaled.backward()
    trainer.step(1)


def test_workers_run_the_optimizer_while_the_scale_of_the_loss_moves(half: None) -> None:
    """A store would divide by one number, and only some workers' gradients may overflow."""
    weight = Parameter("weight", shape=(2,))
    weight.initialize("ones")
    trainer = Trainer([weight], "sgd", {"learning_rate": 1.0}, kvstore=Blackboard(2, runs_optimizers=True))
    amp.init_trainer(trainer)
    scaled_step(trainer, weight, 0.125)
    np.testing.assert_array_equal(weight.data().asnumpy(), 1.0 - 2 * 0.125)
    for factor in (1e38, 0.125):  # the second has still the former scale
        scaled_step(trainer, weight, factor)
    scaled_step(trainer, weight, 0.125)
    np.testing.assert_array_equal(weight.data().asnumpy(), 1.0 - 6 * 0.125)


def test_a_distributed_store_that_must_run_the_optimizer_is_refused_while_the_scale_moves(half: None) -> None:
    weight = Parameter("weight", shape=(2,))
    weight.initialize("ones")
    store = Blackboard(2, runs_optimizers=True)
    told = r"'dist_blackboard' runs the optimizer, .* update_on_kvstore=False, or take bfloat16$"
    asked = Trainer([weight], "sgd", kvstore=store, update_on_kvstore=True)
    amp.init_trainer(asked)
    with pytest.raises(RefusedError, match=told):
        scaled_step(asked, weight, 1.0)
    began = Trainer([weight], "sgd", kvstore=store)
    with autograd.record():
        weight.data().sum().backward()
    began.step(1)
    with pytest.raises(RefusedError, match=told):
        amp.init_trainer(began)
