# SPDX-License-Identifier: Apache-2.0
"""Captured steps of training whose program changes something between two of them, against eager steps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mx_core import cpu, gpu
from mx_core.errors import ArgumentError, MXNetError
from mx_gluon import Trainer, loss, nn
from mx_io.io import DataBatch
from mx_ndarray import autograd, nd
from mx_train.lr_scheduler import CosineScheduler
from mx_train.module import Module
from mx_train.optimizer import create

sym = pytest.importorskip("mx_symbol").sym

BATCH, WIDTH = 2, 3


def slow(values: Any) -> Any:
    """The same numbers, some milliseconds later."""
    square = nd.array(np.eye(500))
    for _ in range(20):
        square = nd.dot(square, square)
    return values * square[0, 0]


class Training:
    """Steps of a small network, each on other data, captured or not. Threads: one at a time."""

    def __init__(self, captured: bool) -> None:
        self.captured = captured
        self._rng = np.random.default_rng(3)
        self.found: list[np.ndarray] = []

    def batch(self) -> tuple[Any, Any]:
        return nd.array(self._rng.normal(size=(BATCH, WIDTH))), nd.array(self._rng.normal(size=(BATCH, 1)))

    def keep(self, *arrays: Any) -> None:
        self.found += [array.asnumpy().copy() for array in arrays]


class ByTrainer(Training):
    def __init__(
        self, captured: bool, optimizer: Any = "sgd", kind: type[Trainer] = Trainer, **settings: Any
    ) -> None:
        super().__init__(captured)
        self.net = nn.HybridSequential()
        first = nn.Dense(4, in_units=WIDTH, activation="tanh", prefix="first_")
        self.net.add(first, nn.Dense(1, in_units=4, prefix="second_"))  # states are in the order of names
        self.net.initialize(ctx=gpu(0))
        self.net.hybridize(static_alloc=True)
        for parameter in self.net.collect_params().values():
            parameter.set_data(nd.array(self._rng.normal(size=parameter.shape)))
        self.trainer = kind(self.net.collect_params(), optimizer, settings or None)
        self._criterion = loss.L2Loss()
        self._step = self.trainer.captured_step(self.forward, BATCH) if captured else None

    def forward(self, x: Any, y: Any) -> Any:
        with autograd.record():
            losses = self._criterion(self.net(x), y)
        losses.backward()
        return losses

    def step(self) -> None:
        x, y = self.batch()
        if self._step is not None:
            losses = self._step(x, y)
        else:
            losses = self.forward(x.copyto(gpu(0)), y.copyto(gpu(0)))
            self.trainer.step(BATCH)
        self.keep(losses)

    @property
    def weights(self) -> list[Any]:
        return [parameter.data() for parameter in self.net.collect_params().values()]

    @property
    def states(self) -> dict[Any, Any]:
        return self.trainer._updaters[0].states


class ByModule(Training):
    def __init__(
        self, captured: bool, optimizer: Any = "sgd", kind: type[Module] = Module, **settings: Any
    ) -> None:
        super().__init__(captured)
        layer = sym.FullyConnected(sym.Variable("data"), num_hidden=4, name="first")
        layer = sym.FullyConnected(sym.Activation(layer, act_type="tanh"), num_hidden=1, name="second")
        output = sym.LinearRegressionOutput(layer, sym.Variable("label"), name="out")
        self.module = kind(output, ("data",), ("label",), context=gpu(0))
        self.bind()
        shapes = {
            "first_weight": (4, WIDTH),
            "first_bias": (4,),
            "second_weight": (1, 4),
            "second_bias": (1,),
        }
        self.module.init_params(
            arg_params={n: nd.array(self._rng.normal(size=shape)) for n, shape in shapes.items()}
        )
        self.module.init_optimizer(optimizer=optimizer, optimizer_params=settings)
        self._step: Any = None

    def bind(self, **settings: Any) -> None:
        self.module.bind([("data", (BATCH, WIDTH))], [("label", (BATCH, 1))], **settings)

    def step(self) -> None:
        x, y = self.batch()
        if self.captured:
            self._step = self._step or self.module.captured_step()
            self.keep(*self._step(x, y))
            return
        self.module.forward_backward(DataBatch([x], [y]))
        self.keep(*self.module.get_outputs())
        self.module.update()

    @property
    def weights(self) -> list[Any]:
        return list(self.module.get_params()[0].values())

    @property
    def states(self) -> dict[Any, Any]:
        return self.module._updater.states


def check(run: Callable[[bool], Training]) -> None:
    """What is kept, and the weights at the end, are the same bits with captured steps and without."""
    eager, ours = (run(captured) for captured in (False, True))
    for training in (eager, ours):
        training.keep(*training.weights)
    assert len(eager.found) == len(ours.found)
    for i, (one, other) in enumerate(zip(ours.found, eager.found, strict=True)):
        np.testing.assert_array_equal(one, other, err_msg=f"number {i}")


KINDS: list[Any] = [ByTrainer, ByModule]


# ---- classes of programs ----


def test_an_update_that_a_module_overrides_runs() -> None:
    class Halving(Module):
        runs = 0

        def update(self) -> None:
            self.runs += 1
            self._optimizer.wd = 0.5**self.runs
            super().update()

    class Forced(Module):
        runs = 0

        def forward_backward(self, data_batch: Any) -> None:
            super().forward_backward(data_batch)
            for each in self._exec_group.execs[0].grad_dict.values():
                if each is not None:
                    each[:] = each * 0.5

    def run(captured: bool, kind: type[Module]) -> Training:
        training = ByModule(captured, kind=kind, learning_rate=0.1)
        for _ in range(6):
            training.step()
        if kind is Halving:
            assert training.module.runs == 6  # type: ignore[attr-defined]
        return training

    for kind in (Halving, Forced):
        check(lambda captured, kind=kind: run(captured, kind))  # type: ignore[misc]


def test_an_update_that_is_set_on_a_module_runs() -> None:
    runs: list[int] = []

    def run(captured: bool) -> Training:
        training = ByModule(captured, learning_rate=0.1)
        update_of = training.module.update
        training.step()

        def update() -> None:
            runs.append(0)
            update_of()

        training.module.update = update  # type: ignore[method-assign]
        for _ in range(5):
            training.step()
        return training

    check(run)
    assert len(runs) == 10


@pytest.mark.parametrize("name", ["_apply", "_update", "_allreduce_grads", "step"])
def test_what_a_trainer_overrides_runs(name: str) -> None:
    runs: list[int] = []
    plain = getattr(Trainer, name)

    def counted(self: Trainer, *args: Any) -> None:
        runs.append(0)
        plain(self, *args)

    own: Any = type("Own", (Trainer,), {name: counted})

    def run(captured: bool) -> Training:
        training = ByTrainer(captured, kind=own, learning_rate=0.1)
        for _ in range(5):
            training.step()
        return training

    check(run)
    assert len(runs) == 10


# ---- what fails ----


class Failing:
    """A graph whose next start fails. Threads: one at a time."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self.fails = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._graph, name)

    def start(self, given: Any) -> None:
        if self.fails:
            self.fails = False
            raise MXNetError("no memory")
        self._graph.start(given)


@pytest.mark.parametrize("changes", ["nothing", "rate", "decay"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_that_fails_does_not_count(kind: Any, optimizer: str, changes: str) -> None:
    def run(captured: bool) -> Training:
        training = kind(captured, optimizer, learning_rate=0.1)
        for _ in range(4):
            training.step()
        inner = training.trainer.optimizer if kind is ByTrainer else training.module._optimizer
        if changes == "rate":
            inner.set_learning_rate(0.05)
        elif changes == "decay":
            inner.wd = 0.01
        if captured:
            step, state = training._step, training._rng.bit_generator.state
            step._graph = Failing(step._graph)
            with pytest.raises(MXNetError, match="no memory"):
                training.step()
            training._rng.bit_generator.state = state
            assert inner.num_update == 4 and set(inner._index_update_count.values()) == {4}
        for _ in range(2):
            training.step()
        assert inner.num_update == 6 and set(inner._index_update_count.values()) == {6}
        return training

    check(run)


# ---- states ----


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_that_is_replaced_is_used(kind: Any) -> None:
    """In the table, and with the whole table."""

    def run(captured: bool) -> Training:
        training = kind(captured, learning_rate=0.1, momentum=0.9)
        for i in range(9):
            if i == 4:
                states = training.states
                states[0] = nd.full(states[0].shape, 0.5, ctx=gpu(0))
            if i == 7:
                training.states.update({k: nd.zeros(v.shape, ctx=gpu(0)) for k, v in training.states.items()})
            training.step()
        training.keep(*training.states.values())
        return training

    check(run)


@pytest.mark.parametrize("kind", KINDS)
def test_states_are_ordered_with_other_work(kind: Any, tmp_path: Path) -> None:
    """A value on its way to a state is used, one read of it before a step is from before, and files have the last."""

    def run(captured: bool) -> Training:
        training = kind(captured, learning_rate=0.1, momentum=0.9)
        for _ in range(3):
            training.step()
        nd.waitall()
        state = training.states[0]
        slow(nd.ones(state.shape) * 0.25).copyto(state)
        training.step()
        before = state + slow(nd.zeros(state.shape)).copyto(gpu(0))
        training.step()
        training.keep(state, before)
        training.step()
        path = tmp_path / "states"
        if kind is ByTrainer:
            training.trainer.save_states(path)
        else:
            training.module.save_optimizer_states(str(path))
        training.step()
        if kind is ByTrainer:
            training.trainer.load_states(path)
        else:
            training.module.load_optimizer_states(str(path))
        training.keep(*training.states.values())
        for _ in range(3):
            training.step()
            training.keep(*training.states.values())
        return training

    check(run)


def test_gradients_are_ordered_with_other_work() -> None:
    def run(captured: bool) -> Training:
        training = ByTrainer(captured, learning_rate=0.1)
        parameter = training.net[0].weight
        parameter.grad_req = "add"
        for _ in range(4):
            parameter.zero_grad()
            training.step()
        nd.waitall()
        slow(nd.ones(parameter.shape)).copyto(parameter.grad())
        training.step()
        before = parameter.grad() + slow(nd.zeros(parameter.shape)).copyto(gpu(0))
        training.step()
        training.keep(parameter.grad(), before)
        return training

    check(run)


# ---- other parameters ----


def test_requests_and_factors_that_change() -> None:
    def run(captured: bool) -> Training:
        schedule = CosineScheduler(20, base_lr=0.1)
        training = ByTrainer(captured, "adam", lr_scheduler=schedule)
        first, second = training.net[0].weight, training.net[1].weight
        for i in range(16):
            if i == 3:
                first.grad_req = "null"
            if i == 6:
                second.lr_mult = 0.25
            if i == 8:
                first.grad_req = "write"
            if i == 11:
                second.wd_mult = 0.5
                second.grad_req = "add"
            if i == 14:
                second.grad_req = "write"
                second.set_data(nd.ones(second.shape))
            training.step()
        counts = training.trainer.optimizer._index_update_count
        training.keep(nd.array(list(counts.values())), nd.array(list(counts)))
        return training

    check(run)


def test_parameters_that_the_trainer_takes_or_that_get_other_arrays() -> None:
    def run(captured: bool) -> Training:
        training = ByTrainer(captured, learning_rate=0.1, momentum=0.9)
        first = training.net[0].weight
        for i in range(9):
            if i == 3:
                first.initialize(ctx=gpu(0), force_reinit=True, init="ones")
            if i == 6:
                training.net.cast("float32")
            training.step()
        return training

    check(run)


def test_a_network_that_has_seen_no_batch() -> None:
    """Its parameters get shapes in the first call; the third one captures."""
    found = []
    for captured in (False, True):
        rng = np.random.default_rng(5)
        net = nn.HybridSequential()
        net.add(nn.Dense(4, activation="tanh"), nn.Dense(1))
        net.initialize("ones", ctx=gpu(0))
        trainer = Trainer(net.collect_params(), "adam")

        def forward(x: Any, net: Any = net) -> Any:
            with autograd.record():
                losses = net(x).square()
            losses.backward()
            return losses

        step = trainer.captured_step(forward, BATCH) if captured else None
        for k in range(5):
            x = nd.array(rng.normal(size=(BATCH, WIDTH)))
            if step is not None:
                step(x)
                assert step.captured == (k >= 2)  # type: ignore[attr-defined]
            else:
                forward(x.copyto(gpu(0)))
                trainer.step(BATCH)
        found.append([parameter.data().asnumpy() for parameter in net.collect_params().values()])
        assert trainer.optimizer.num_update == 5
    for eager, other in zip(*found, strict=True):
        np.testing.assert_array_equal(eager, other)


def test_parameters_that_have_moved_are_refused() -> None:
    training = ByTrainer(True, learning_rate=0.1)
    for _ in range(3):
        training.step()
    training.net.collect_params().reset_ctx(cpu())
    with pytest.raises(MXNetError, match=r"expected parameters on gpu\(0\), got \[cpu\(0\)\]"):
        training.step()


# ---- modules ----


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_an_optimizer_that_begins_anew(optimizer: str) -> None:
    def run(captured: bool) -> Training:
        training = ByModule(captured, learning_rate=0.1, momentum=0.9)
        for i in range(8):
            if i == 4:
                settings = {"learning_rate": 0.2, "wd": 0.1}
                training.module.init_optimizer(
                    optimizer=optimizer, optimizer_params=settings, force_init=True
                )
            training.step()
        assert training.module._optimizer.num_update == 4
        return training

    check(run)


def test_a_store_that_runs_the_optimizer_is_refused() -> None:
    training = ByModule(True, learning_rate=0.1)
    for _ in range(3):
        training.step()
    training.module.init_optimizer(kvstore=pytest.importorskip("mx_kvstore").create("local"), force_init=True)
    with pytest.raises(ArgumentError, match="expected one context and no store"):
        training.step()


def test_a_module_that_is_bound_anew() -> None:
    def run(captured: bool) -> Training:
        training = ByModule(captured, learning_rate=0.1, momentum=0.9)
        for i in range(10):
            if i == 4:
                training.bind(force_rebind=True)
            if i == 7:
                training.bind(force_rebind=True, grad_req={"first_weight": "null", "second_weight": "add"})
            training.step()
        return training

    check(run)


def test_parameters_without_gradients_are_not_counted() -> None:
    def run(captured: bool) -> Training:
        training = ByModule(captured, "adam", learning_rate=0.1)
        training.bind(force_rebind=True, grad_req={"first_weight": "null"})
        for _ in range(5):
            training.step()
        counts = training.module._optimizer._index_update_count
        training.keep(nd.array(sorted(counts)), nd.array([counts[i] for i in sorted(counts)]))
        return training

    check(run)


def test_parameters_are_set_and_read_between_steps() -> None:
    def run(captured: bool) -> Training:
        training = ByModule(captured, learning_rate=0.1, momentum=0.9)
        for i in range(8):
            training.step()
            training.keep(*training.weights)
            if i == 5:
                values = {
                    name: nd.ones(array.shape) for name, array in training.module.get_params()[0].items()
                }
                training.module.set_params(values, {})
        return training

    check(run)


def test_evaluations_of_other_sizes_between_steps() -> None:
    """The module's outputs are those of the last step or evaluation."""

    def run(captured: bool) -> Training:
        training = ByModule(captured, "rmsprop", learning_rate=0.1)
        module, rng = training.module, np.random.default_rng(5)
        for i in range(10):
            if i > 3:
                module.forward(
                    DataBatch([nd.array(rng.normal(size=(1 + i % 3, WIDTH)))], None), is_train=False
                )
                training.keep(*module.get_outputs())
            if i == 7:
                module._optimizer.set_learning_rate(0.05)
            if i == 8:
                module.reshape([("data", (5, WIDTH))], [("label", (5, 1))])
            training.step()
            training.keep(*module.get_outputs())
            assert module.data_shapes[0].shape == (BATCH, WIDTH)
        return training

    check(run)


# ---- work that is pending when the update runs ----


@pytest.mark.parametrize("kind", KINDS)
def test_an_update_that_runs_waits_for_work_before_it(kind: Any) -> None:
    def run(captured: bool) -> Training:
        training = kind(captured, "rmsprop", learning_rate=0.1)
        for _ in range(4):
            training.step()
        nd.waitall()
        state = training.states[0]
        state = state if isinstance(state, type(nd.ones((1,)))) else state[0]
        inner = training.trainer.optimizer if kind is ByTrainer else training.module._optimizer
        for rate in (0.05, 0.025):
            inner.set_learning_rate(rate)
            sums = slow(nd.ones((5,))).copyto(gpu(0)) * 3 + 1
            slow(nd.ones(state.shape) * 0.25).copyto(state)
            training.step()
            training.keep(sums, state)
        return training

    check(run)


def test_optimizers_that_are_given() -> None:
    def run(captured: bool) -> Training:
        training = ByTrainer(captured, create("nag", learning_rate=0.1, momentum=0.9))
        for _ in range(5):
            training.step()
        return training

    check(run)
