# SPDX-License-Identifier: Apache-2.0
"""Random sequences of what programs do between steps of training, with captured steps and with eager ones."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mx_core import gpu
from mx_gluon import Trainer, loss, nn
from mx_io.io import DataBatch
from mx_ndarray import autograd, nd
from mx_train.lr_scheduler import CosineScheduler
from mx_train.module import Module
from mx_train.optimizer import Optimizer, create
from mx_train.optimizer.table import arrays_of

sym = pytest.importorskip("mx_symbol").sym

BATCHES, WIDTH, LENGTH = (4, 2), 3, 30
SEEDS = range(int(os.environ.get("CAPTURED_SEQUENCES", "4")))
SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("sgd", {"momentum": 0.9}), ("sgd", {}), ("adam", {"wd": 0.01}), ("rmsprop", {}), ("nag", {"momentum": 0.5}),
    ("sgd", {"momentum": 0.9, "aggregate_num": 1}), ("lamb", {}), ("ftrl", {}),
]  # fmt: skip


def slow(values: Any) -> Any:
    """The same numbers, some milliseconds later."""
    square = nd.array(np.eye(400))
    for _ in range(10):
        square = nd.dot(square, square)
    return values * square[0, 0]


class Program:
    """Calls of methods in an order that a seed gives; what they find is kept. Threads: one at a time.

    Methods whose names begin with `do_` are called. They draw from `rng` alike with captured steps and without.
    """

    optimizer: Optimizer

    def __init__(self, seed: int, captured: bool, folder: Path) -> None:
        self.rng = np.random.default_rng(seed)
        self.captured, self._path = captured, folder / f"states{captured:d}"
        self._saved = False
        self._found: list[tuple[str, Any]] = []
        name, settings = SETTINGS[self.rng.integers(len(SETTINGS))]
        self._scheduled = bool(self.rng.integers(2))
        if self._scheduled:
            settings = {**settings, "lr_scheduler": CosineScheduler(50, base_lr=0.05)}
        self.optimizer = create(name, **{"learning_rate": 0.05, "rescale_grad": 0.25, **settings})

    def run(self) -> list[tuple[str, np.ndarray]]:
        """What was kept, with the names of the calls."""
        names = sorted(name for name in dir(self) if name.startswith("do_"))
        for _ in range(LENGTH):
            name = "do_step" if self.rng.integers(2) else str(self.rng.choice(names))
            getattr(self, name)()
        for weight in self.weights():
            self.keep("the end", weight)
        return [(name, array.asnumpy()) for name, array in self._found]

    def keep(self, name: str, array: Any) -> None:
        """Its values of now, without a wait."""
        self._found.append((name, array.copy()))

    def values(self, *shape: int) -> Any:
        return nd.array(self.rng.normal(size=shape))

    def some(self, listed: list[Any]) -> Any:
        return listed[self.rng.integers(len(listed))]

    def state_table(self) -> dict[Any, Any]:
        raise NotImplementedError

    def weights(self) -> list[Any]:
        raise NotImplementedError

    def a_state(self) -> Any:
        states = self.state_table()
        found = [array for i in sorted(states) for array in arrays_of(states[i])]
        return self.some(found) if found else None

    # ---- what programs do ----

    def do_wait(self) -> None:
        nd.waitall()

    def do_set_a_weight(self) -> None:
        weight = self.some(self.weights())
        values = self.values(*weight.shape) * 0.3
        (slow(values) if self.rng.integers(2) else values).copyto(weight)

    def do_read_a_weight(self) -> None:
        weight = self.some(self.weights())
        self.keep("weight", weight)
        if self.rng.integers(2):
            weight.asnumpy()

    def do_add_to_a_weight_what_is_late(self) -> None:
        weight = self.some(self.weights())
        self.keep("late", weight + slow(nd.ones(weight.shape)).copyto(gpu(0)))

    def do_read_a_state(self) -> None:
        if (state := self.a_state()) is not None:
            self.keep("state", state)

    def do_set_a_state(self) -> None:
        if (state := self.a_state()) is not None:
            slow(nd.full(state.shape, 0.125)).copyto(state)

    def do_replace_a_state(self) -> None:
        states = self.state_table()
        if states:
            index = self.some(sorted(states))
            state = states[index]
            if isinstance(state, tuple):
                states[index] = tuple(None if each is None else each.copy() * 0.5 for each in state)
            elif state is not None:
                states[index] = state.copy() * 0.5

    def do_set_the_rate(self) -> None:
        rate = 0.1 / self.rng.integers(1, 9)
        if not self._scheduled:
            self.optimizer.set_learning_rate(rate)

    def do_set_the_decay(self) -> None:
        self.optimizer.wd = 0.01 * self.rng.integers(3)

    def do_set_the_limit(self) -> None:
        self.optimizer.clip_gradient = (None, 0.5, 0.1)[self.rng.integers(3)]


class ByTrainer(Program):
    def __init__(self, seed: int, captured: bool, folder: Path) -> None:
        super().__init__(seed, captured, folder)
        self._net = net = nn.HybridSequential()
        net.add(
            nn.Dense(4, in_units=WIDTH),
            nn.BatchNorm(in_channels=4),
            nn.Activation("tanh"),
            nn.Dense(1, in_units=4),
        )
        net.initialize(ctx=gpu(0))
        if self.rng.integers(2):
            net.hybridize(static_alloc=bool(self.rng.integers(2)))
        for layer in (net[0], net[3]):
            layer.weight.set_data(self.values(*layer.weight.shape))
        self._learned = [param for param in net.collect_params().values() if param.grad_req != "null"]
        self._trainer = Trainer(net.collect_params(), self.optimizer)
        self._criterion = loss.L2Loss()
        self._steps = [self._trainer.captured_step(self._forward, size) for size in BATCHES]

    def _forward(self, x: Any, y: Any) -> Any:
        with autograd.record():
            losses = self._criterion(self._net(x), y)
        losses.backward()
        return losses

    def _take(self, which: int, captured: bool) -> None:
        x, y = self.values(BATCHES[which], WIDTH), self.values(BATCHES[which], 1)
        if self.rng.integers(3) == 0:
            x = slow(x)
        if captured:
            losses = self._steps[which](x, y)
        else:
            losses = self._forward(x.copyto(gpu(0)), y.copyto(gpu(0)))
            self._trainer.step(BATCHES[which])
        self.keep("losses", losses)

    def weights(self) -> list[Any]:
        return [param.data() for param in self._net.collect_params().values()]

    def state_table(self) -> dict[Any, Any]:
        return self._trainer._updaters[0].states

    def do_step(self) -> None:
        self._take(0, self.captured)

    def do_step_of_another_size(self) -> None:
        self._take(1, self.captured)

    def do_step_without_a_graph(self) -> None:
        self._take(0, False)

    def do_evaluate(self) -> None:
        self.keep("evaluated", self._net(slow(self.values(3, WIDTH)).copyto(gpu(0))))

    def do_set_a_parameter(self) -> None:
        param = self.some(self._learned)
        param.set_data(self.values(*param.shape) * 0.3)

    def do_set_a_factor(self) -> None:
        param = self.some(self._learned)
        setattr(param, ("lr_mult", "wd_mult")[self.rng.integers(2)], 0.5 * self.rng.integers(3))

    def do_set_a_request(self) -> None:
        self.some(self._learned).grad_req = ("write", "add", "null")[self.rng.integers(3)]

    def do_clear_gradients(self) -> None:
        for param in self._learned:
            param.zero_grad()

    def do_read_and_set_a_gradient(self) -> None:
        param = self.some(self._learned)
        if param.grad_req != "null":
            gradient = param.grad()
            self.keep("gradient", gradient)
            slow(nd.ones(param.shape)).copyto(gradient)
            self.keep("gradient", gradient)

    def do_save_states(self) -> None:
        self._trainer.save_states(self._path)
        self._saved = True

    def do_load_states(self) -> None:
        if self._saved:
            self._trainer.load_states(self._path)


class ByModule(Program):
    def __init__(self, seed: int, captured: bool, folder: Path) -> None:
        super().__init__(seed, captured, folder)
        layer = sym.FullyConnected(sym.Variable("data"), num_hidden=4, name="first")
        layer = sym.BatchNorm(layer, fix_gamma=False, name="norm")
        layer = sym.FullyConnected(sym.Activation(layer, act_type="tanh"), num_hidden=1, name="second")
        output = sym.LinearRegressionOutput(layer, sym.Variable("label"), name="out")
        self._module = Module(output, ("data",), ("label",), context=gpu(0))
        self._bind()
        first, second = self.values(4, WIDTH), self.values(1, 4)
        self._module.init_params(
            arg_params={"first_weight": first, "second_weight": second}, allow_missing=True, initializer=_ones
        )
        self._module.init_optimizer(optimizer=self.optimizer)
        self._step = self._module.captured_step()
        self._has_outputs = False

    def _bind(self, **settings: Any) -> None:
        self._module.bind([("data", (BATCHES[0], WIDTH))], [("label", (BATCHES[0], 1))], **settings)

    def weights(self) -> list[Any]:
        executor = self._module._exec_group.execs[0]
        names = [name for name in executor.arg_dict if name not in ("data", "label")]
        return [*(executor.arg_dict[name] for name in names), *executor.aux_dict.values()]

    def state_table(self) -> dict[Any, Any]:
        return self._module._updater.states

    def _take(self, captured: bool) -> None:
        x, y = self.values(BATCHES[0], WIDTH), self.values(BATCHES[0], 1)
        if self.rng.integers(3) == 0:
            x = slow(x)
        if captured:
            outputs = self._step(x, y)
        else:
            self._module.forward_backward(DataBatch([x], [y]))
            outputs = self._module.get_outputs()
            self._module.update()
        self.keep("outputs", outputs[0])
        self._has_outputs = True

    def do_step(self) -> None:
        self._take(self.captured)

    def do_step_without_a_graph(self) -> None:
        self._take(False)

    def do_evaluate(self) -> None:
        batch = DataBatch([slow(self.values(self.rng.integers(2, 5), WIDTH))], None)
        self._module.forward(batch, is_train=False)
        self.keep("evaluated", self._module.get_outputs()[0])

    def do_read_outputs(self) -> None:
        if self._has_outputs:
            self.keep("outputs", self._module.get_outputs()[0])

    def do_get_parameters(self) -> None:
        for array in (array for table in self._module.get_params() for array in table.values()):
            self.keep("parameter", array)

    def do_set_parameters(self) -> None:
        arguments, others = self._module.get_params()
        name = self.some(sorted(arguments))
        arguments = {**arguments, name: self.values(*arguments[name].shape) * 0.3}
        self._module.set_params(arguments, others)

    def do_bind_anew(self) -> None:
        some = {"first_bias": "null", "norm_gamma": "null"} if self.rng.integers(2) else "write"
        self._bind(force_rebind=True, grad_req=some)
        self._has_outputs = False

    def do_begin_with_the_optimizer_anew(self) -> None:
        self._module.init_optimizer(optimizer=self.optimizer, force_init=True)

    def do_set_factors(self) -> None:
        getattr(self.optimizer, ("set_lr_mult", "set_wd_mult")[self.rng.integers(2)])(
            {"first_weight": 0.5 * self.rng.integers(3)}
        )

    def do_save_states(self) -> None:
        self._module.save_optimizer_states(str(self._path))
        self._saved = True

    def do_load_states(self) -> None:
        if self._saved:
            self._module.load_optimizer_states(str(self._path))


def _ones(name: Any, array: Any) -> None:
    array[:] = 0 if str(name).endswith(("bias", "mean")) else 1


@pytest.mark.filterwarnings("ignore:.*rescale_grad of the given optimizer")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", [ByTrainer, ByModule])
def test_sequences(kind: type[Program], seed: int, tmp_path: Path) -> None:
    eager, ours = (kind(seed, captured, tmp_path).run() for captured in (False, True))
    assert [name for name, _ in ours] == [name for name, _ in eager]
    for i, ((name, one), (_, other)) in enumerate(zip(ours, eager, strict=True)):
        np.testing.assert_array_equal(one, other, err_msg=f"{name}, number {i} of {len(ours)}")
