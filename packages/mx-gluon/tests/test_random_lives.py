# SPDX-License-Identifier: Apache-2.0
"""Networks in random order hybridised, cast, moved, frozen, loaded, copied and trained compute what their values say."""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mx_core import Context, cpu
from mx_gluon import Constant, HybridBlock, Trainer, nn
from mx_ndarray import autograd, nd
from mx_ndarray import random as mx_random
from mx_train import initializer

START = initializer.Uniform(0.5)
SETTINGS: list[tuple[str, dict[str, float]]] = [
    ("sgd", {"learning_rate": 0.05}),
    ("sgd", {"learning_rate": 0.05, "momentum": 0.9}),
    ("adam", {"learning_rate": 0.01}),
]


class Mixed(HybridBlock):
    """A parameter and a constant of its own, and two layers, which may share theirs."""

    def __init__(self, shared: bool) -> None:
        super().__init__()
        with self.name_scope():
            self.weight = self.params.get("weight", shape=(4, 4))
            self.scale = self.params.get_constant("scale", [[2.0, 1.0, 0.0, 1.0]])
            self.lower = nn.Dense(4, in_units=4)
            self.upper = nn.Dense(4, in_units=4, params=self.lower.params if shared else None)

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        product = F.broadcast_mul(F.dot(x, kwargs["weight"]), kwargs["scale"])
        return self.upper(F.tanh(self.lower(product)))


class Life:
    """A network and what its values should make it compute."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.choices, self.numbers, self.folder = random.Random(seed), np.random.default_rng(seed), folder
        mx_random.seed(seed)
        self.net: Any = nn.HybridSequential()
        with self.net.name_scope():
            self.net.add(Mixed(self.choices.random() < 0.3), nn.Dense(2, in_units=4))
        self.contexts: list[Context] = [cpu(0)]
        self.dtype = "float32"
        self.trainer: Trainer | None = None
        self.net.initialize(START, ctx=self.contexts)

    def parameters(self) -> dict[str, Any]:
        return dict(self.net.collect_params().items())

    def any_weight(self) -> Any:
        learned = [each for each in self.parameters().values() if not isinstance(each, Constant)]
        return self.choices.choice(learned)

    def expected(self, x: Any, ctx: Context) -> Any:
        def of(param: Any) -> Any:
            return param.data(ctx).asnumpy().astype("float64")

        mixed, last = self.net[0], self.net[1]
        x = (x @ of(mixed.weight)) * of(mixed.scale)
        for layer, function in ((mixed.lower, np.tanh), (mixed.upper, np.asarray), (last, np.asarray)):
            x = function(x @ of(layer.weight).T + of(layer.bias))
        return x

    # ---- what happens to it ----

    def hybridize(self) -> None:
        self.net.hybridize(self.choices.random() < 0.7)

    def cast(self) -> None:
        self.dtype, self.trainer = self.choices.choice(["float32", "float64"]), None
        self.net.cast(self.dtype)

    def move(self) -> None:
        self.contexts = self.choices.choice([[cpu(0)], [cpu(1)], [cpu(0), cpu(1)]])
        self.net.collect_params().reset_ctx(self.contexts)

    def freeze(self) -> None:
        self.any_weight().grad_req = self.choices.choice(["null", "write"])

    def set(self) -> None:
        param = self.any_weight()
        param.set_data(nd.array(self.numbers.uniform(-0.5, 0.5, param.shape)))

    def start_again(self) -> None:
        self.net.initialize(START, ctx=self.contexts, force_reinit=True)

    def load(self) -> None:
        self.net.save_parameters(self.folder / "p")
        self.net.initialize("zeros", ctx=self.contexts, force_reinit=True)
        self.net.load_parameters(self.folder / "p", ctx=self.contexts)

    def duplicate(self) -> None:
        ways: list[Callable[[Any], Any]] = [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))]
        self.net, self.trainer = self.choices.choice(ways)(self.net), None

    def replace(self) -> None:
        layer = nn.Dense(4, in_units=4, prefix=f"new{self.choices.random()}_")
        layer.initialize(START, ctx=self.contexts)
        layer.cast(self.dtype)
        self.net[0].lower, self.trainer = layer, None
        self.net.hybridize(self.choices.random() < 0.7)

    def train(self) -> None:
        if self.trainer is None or self.choices.random() < 0.2:
            kind, more = self.choices.choice(SETTINGS)
            place = self.choices.choice([None, False])
            self.trainer = Trainer(self.net.collect_params(), kind, more, update_on_kvstore=place)
        params = self.parameters()
        learned = [name for name, param in params.items() if param.grad_req != "null"]
        if not learned:
            return
        x = self.numbers.uniform(-1, 1, (3, 4))
        before = {name: param.data(self.contexts[0]).asnumpy() for name, param in params.items()}
        with autograd.record():
            outputs = [self.net(nd.array(x, ctx=ctx, dtype=self.dtype)) for ctx in self.contexts]
            losses = [(each * each).sum() for each in outputs]
        autograd.backward(losses)
        grads = {name: params[name].grad(self.contexts[0]).asnumpy() for name in learned}
        self.trainer.step(3 * len(self.contexts))
        for name, param in params.items():
            copies = [array.asnumpy() for array in param.list_data()]
            assert all(np.allclose(each, copies[0]) for each in copies), name
            moved = not np.array_equal(copies[0], before[name])
            if name not in learned:
                assert not moved, name
            elif abs(grads[name]).max() > 1e-5:
                assert moved, name
            optimizer = self.trainer.optimizer
            if name in learned and getattr(optimizer, "momentum", None) == 0.0:
                wanted = before[name] - 0.05 * grads[name] / 3
                np.testing.assert_allclose(copies[0], wanted, atol=1e-5, err_msg=name)

    def check(self) -> None:
        x = self.numbers.uniform(-1, 1, (3, 4))
        for ctx in self.contexts:
            found = self.net(nd.array(x, ctx=ctx, dtype=self.dtype))
            assert found.context == ctx and np.dtype(found.dtype).name == self.dtype
            np.testing.assert_allclose(found.asnumpy(), self.expected(x, ctx), atol=1e-4)


EVENTS = (
    Life.hybridize, Life.cast, Life.move, Life.freeze, Life.set, Life.start_again, Life.load, Life.duplicate,
    Life.replace, Life.train, Life.train, Life.train,
)  # fmt: skip


@pytest.mark.parametrize(
    "seed", [*range(12), *(pytest.param(i, marks=pytest.mark.slow) for i in range(12, 200))]
)
def test_networks_compute_what_their_values_say(seed: int, tmp_path: Path) -> None:
    life = Life(seed, tmp_path)
    happened = []
    for _ in range(25):
        event = life.choices.choice(EVENTS)
        happened.append(event.__name__)
        try:
            event(life)
            life.check()
        except Exception as error:
            error.add_note(f"after {', '.join(happened)}")
            raise
