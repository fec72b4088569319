# SPDX-License-Identifier: Apache-2.0
"""Steps captured in a CUDA graph, real or fake, against the same ones that are not captured; see `plans.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mx_core import gpu
from mx_core.errors import ArgumentError, MXNetError
from mx_gluon import Trainer, loss, nn
from mx_ndarray import autograd, invoke_capsule, nd, random
from mx_operators_cuda import CapturedStep
from mx_train.lr_scheduler import FactorScheduler

STEPS = 5


def network(hybrid: bool) -> Any:
    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(3, 3, in_channels=2), nn.BatchNorm(in_channels=3), nn.Activation("relu"), nn.Flatten(),
        nn.Dropout(0.4), nn.Dense(6, activation="tanh", in_units=48), nn.Dense(3, in_units=6),
    )  # fmt: skip
    net.initialize(ctx=gpu(0))
    rng = np.random.default_rng(5)
    for name, parameter in net.collect_params().items():
        values = rng.normal(size=parameter.shape) * 0.4
        positive = name.endswith(("var", "gamma"))
        parameter.set_data(nd.array(np.abs(values) + 0.7 if positive else values, ctx=gpu(0)))
    if hybrid:
        net.hybridize(static_alloc=True)
    return net


def trained(optimizer: str, settings: dict[str, Any], hybrid: bool, captured: bool) -> list[np.ndarray]:
    """Losses of some steps, each on other data and with another learning rate, then the parameters."""
    random.seed(7, gpu(0))
    net, rng = network(hybrid), np.random.default_rng(3)
    schedule = FactorScheduler(step=1, factor=0.7, base_lr=0.05)
    trainer = Trainer(net.collect_params(), optimizer, {"lr_scheduler": schedule, "wd": 1e-3, **settings})
    criterion = loss.SoftmaxCrossEntropyLoss()

    def forward(x: Any, label: Any) -> Any:
        with autograd.record():
            losses = criterion(net(x), label)
        losses.backward()
        return losses

    def update() -> None:
        trainer.step(5)

    weights = [p.data() for p in net.collect_params().values() if p.grad_req != "null"]
    step = CapturedStep(forward, update, weights=weights, invoke=invoke_capsule())
    found = []
    for _ in range(STEPS):
        x, label = nd.array(rng.normal(size=(5, 2, 6, 6))), nd.array(rng.integers(0, 3, 5))
        if captured:
            losses = step(x, label)
        else:
            losses = forward(x.copyto(gpu(0)), label.copyto(gpu(0)))
            update()
        found.append(losses.asnumpy())
    assert step.captured == captured
    return found + [p.data().asnumpy() for p in net.collect_params().values()]


@pytest.mark.parametrize("hybrid", [False, True], ids=["imperative", "hybrid"])
@pytest.mark.parametrize(
    ("optimizer", "settings"), [("sgd", {"momentum": 0.9}), ("adam", {}), ("sgd", {"aggregate_num": 1})]
)
def test_captured_steps_equal_eager_ones(optimizer: str, settings: dict[str, Any], hybrid: bool) -> None:
    eager = trained(optimizer, settings, hybrid, captured=False)
    found = trained(optimizer, settings, hybrid, captured=True)
    for ours, theirs in zip(found, eager, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert any((a != b).any() for a, b in zip(eager[:STEPS], eager[1:STEPS], strict=False))


def captured_step(forward: Callable[..., Any], update: Callable[[], Any] | None = None) -> CapturedStep:
    return CapturedStep(forward, update, invoke=invoke_capsule())


def test_random_numbers_go_on() -> None:
    """Masks differ from run to run, and are those of runs that are not captured."""

    def draw() -> Any:
        return random.uniform(0, 1, (4,), ctx=gpu(0)) + random.normal(0, 1, (4,), ctx=gpu(0))

    found = []
    for captured in (False, True):
        random.seed(11, gpu(0))
        step = captured_step(draw) if captured else draw
        found.append(np.stack([step().asnumpy() for _ in range(4)]))
    np.testing.assert_array_equal(*found)
    assert len(np.unique(found[0])) == 16


def test_memory_of_a_captured_step_is_its_own() -> None:
    """Arrays that come and go between runs do not lie where the graph computes."""
    step = captured_step(lambda x: ((x + 1) * 2).exp() - 3)
    values = np.linspace(-1, 1, 1000, dtype=np.float32)
    for i in range(6):
        found = step(nd.array(values + i))
        others = [nd.full((1000,), 77, ctx=gpu(0)) for _ in range(8)]
        np.testing.assert_allclose(found.asnumpy(), np.exp((values + i + 1) * 2) - 3, rtol=1e-4)
        assert all((one.asnumpy() == 77).all() for one in others)


def test_weights_may_be_written_and_read_between_runs() -> None:
    weight = nd.ones((3,), ctx=gpu(0))
    step = captured_step(lambda x: x * weight, lambda: nd.sgd_update(weight, weight, lr=0.5, out=weight))
    x = nd.array([1.0, 2.0, 3.0])
    for wanted in (1.0, 0.5, 0.25, 0.125):
        np.testing.assert_array_equal(step(x).asnumpy(), wanted * x.asnumpy())
        np.testing.assert_array_equal(weight.asnumpy(), wanted / 2)
    weight[:] = 8
    np.testing.assert_array_equal(step(x).asnumpy(), 8 * x.asnumpy())


def test_other_operations_than_the_captured_ones_are_refused() -> None:
    weight, rates = nd.ones((3,), ctx=gpu(0)), iter([1, 1, 2])

    def update() -> None:
        for _ in range(next(rates)):
            nd.sgd_update(weight, weight, lr=0.5, out=weight)

    step = captured_step(lambda: weight * 2, update)
    step()
    step()
    with pytest.raises(MXNetError, match="one operation more than were captured"):
        step().wait_to_read()
        weight.wait_to_read()


def test_values_cannot_be_read_while_a_step_is_captured() -> None:
    x = nd.ones((3,), ctx=gpu(0))
    step = captured_step(lambda: x * x.sum().asscalar())
    step()
    with pytest.raises(MXNetError, match="cannot be read on the host"):
        step()
    np.testing.assert_array_equal((x + 1).asnumpy(), 2)  # the GPU goes on


def test_inputs_keep_their_shapes() -> None:
    step = captured_step(lambda x: x + 1)
    step(nd.ones((3,)))
    with pytest.raises(ArgumentError, match=r"expected inputs .*3.*got .*4"):
        step(nd.ones((4,)))
