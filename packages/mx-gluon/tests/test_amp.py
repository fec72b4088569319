# SPDX-License-Identifier: Apache-2.0
"""Mixed precision in Gluon: scales and skipped steps are those that MXNet 1.9.1 has in the same program."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mx_core import cpu
from mx_core.errors import ArgumentError, MXNetError
from mx_gluon import Trainer, amp, loss, nn
from mx_gluon.block import HybridBlock
from mx_ndarray import NDArray, autograd, nd, random
from mx_symbol import amp as graphs
from mx_symbol import passes
from mx_symbol.passes import cast_rules
from mx_train import initializer
from mx_train.checkpoint import Training

INF, NAN = float("inf"), float("nan")


@pytest.fixture(autouse=True)
def off() -> Iterator[None]:
    """Mixed precision ends with the test."""
    yield
    passes.always("amp", False)
    cast_rules.use(cast_rules.Lists())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_networks_that_ran_before_compute_in_16_bits_after(dtype: str) -> None:
    """For shapes that it knows, too; with other operators in float32, again."""
    net = nn.Dense(3, in_units=4)
    net.initialize("normal")
    net.hybridize()
    x = nd.random.normal(shape=(2, 4))

    def found() -> tuple[Any, Any]:
        with autograd.record():
            out = net(x)
        out.backward()
        return net(x).asnumpy(), net.weight.grad().asnumpy()

    exact = found()
    graphs.init(dtype)
    low = found()
    assert (low[0] != exact[0]).any() and (low[1] != exact[1]).any()
    np.testing.assert_allclose(low[0], exact[0], atol=0.05)
    graphs.init(dtype, fp32_ops=["FullyConnected"])
    np.testing.assert_array_equal(found()[0], exact[0])


class Products(HybridBlock):
    """A product with two weights, summed."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.weight = self.params.get("weight", shape=(2,))

    def hybrid_forward(self, F: Any, x: Any, weight: Any) -> Any:
        return F.broadcast_mul(x, weight.reshape((1, 2))).sum(axis=1)


def made(contexts: Any = None, **settings: Any) -> tuple[Products, Trainer]:
    net = Products()
    net.initialize(initializer.One(), ctx=contexts)
    return net, Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5}, **settings)


def step(net: Products, trainer: Any, factor: float = 1, batch_size: int = 1) -> tuple[Any, ...]:
    """Scaled loss, gradient and weights, then the state of the scale."""
    with autograd.record():
        value = net(nd.array([[1, 2]])) * factor
        with amp.scale_loss(value, trainer) as scaled:
            autograd.backward(scaled)
    gradient = net.weight.grad().asnumpy().tolist()
    trainer.step(batch_size)
    scaler = trainer._amp_loss_scaler
    weights = net.weight.data().asnumpy().tolist()
    return scaled.asnumpy().tolist(), gradient, weights, scaler.loss_scale, scaler._unskipped, trainer._scale


def test_scales_and_skipped_steps_are_those_of_mxnet() -> None:
    graphs.init("float16")
    net, trainer = made()
    amp.init_trainer(trainer)
    done = [step(net, trainer), step(net, trainer), step(net, trainer, INF)]
    not_finite = step(net, trainer, NAN)
    assert np.isnan([*not_finite[0], *not_finite[1]]).all()
    assert done == [
        ([196608], [65536, 131072], [0.5, 0], 65536, 1, 2**-16),
        ([32768], [65536, 131072], [0, -1], 65536, 2, 2**-16),
        ([-INF], [INF, INF], [0, -1], 65536, 0, 2**-16),
    ]
    assert not_finite[2:] == ([0, -1], 32768, 0, 2**-16)
    assert step(net, trainer, 1, 2) == ([-65536], [32768, 65536], [-0.25, -1.5], 16384, 1, 2**-15)
    scaler: Any = trainer._amp_loss_scaler  # type: ignore[attr-defined]
    scaler._unskipped = 1999
    assert step(net, trainer) == ([-53248], [16384, 32768], [-0.75, -2.5], 16384, 0, 2**-14)
    assert step(net, trainer) == ([-94208], [16384, 32768], [-1.25, -3.5], 32768, 1, 2**-14)
    with autograd.record():
        value = net(nd.array([[1, 2]]))
        with amp.scale_loss([value, value * 2], trainer) as scaled:
            assert [each.asnumpy().tolist() for each in scaled] == [[-270336], [-540672]]


def test_gradients_can_be_unscaled_before_the_step() -> None:
    graphs.init("float16")
    net, trainer = made()
    amp.init_trainer(trainer)
    with autograd.record():
        value = net(nd.array([[1, 2]]))
        with amp.scale_loss(value, trainer) as scaled:
            autograd.backward(scaled)
    amp.unscale(trainer)
    assert net.weight.grad().asnumpy().tolist() == [1, 2]
    trainer.step(1)
    assert net.weight.data().asnumpy().tolist() == [0.5, 0]
    assert step(net, trainer)[1:3] == ([65536, 131072], [0, -1])


@pytest.mark.parametrize("in_store", [True, False])
def test_steps_on_two_contexts_are_skipped_on_both(in_store: bool) -> None:
    graphs.init("float16")
    contexts = [cpu(0), cpu(1)]
    net, trainer = made(contexts, update_on_kvstore=in_store)
    amp.init_trainer(trainer)

    def both(factors: list[float]) -> list[Any]:
        with autograd.record():
            values = [net(nd.array([[1, 2]], ctx=ctx)) * f for ctx, f in zip(contexts, factors, strict=True)]
            with amp.scale_loss(values, trainer) as scaled:
                autograd.backward(scaled)
        trainer.step(2)
        return [array.asnumpy().tolist() for array in net.weight.list_data()]

    assert both([1, 1]) == [[0.5, 0]] * 2
    assert both([1, INF]) == [[0.5, 0]] * 2
    assert both([1, 1]) == [[0, -1]] * 2
    assert trainer._amp_loss_scaler.loss_scale == 32768  # type: ignore[attr-defined]


def test_the_scale_of_bfloat16_is_one() -> None:
    graphs.init("bfloat16")
    net, trainer = made()
    amp.init_trainer(trainer)
    assert step(net, trainer) == ([3], [1, 2], [0.5, 0], 1, 0, 1)
    assert step(net, trainer, INF)[3:] == (1, 0, 1)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_network_learns(dtype: str) -> None:
    random.seed(0)
    graphs.init(dtype)
    net = nn.HybridSequential()
    net.add(nn.Dense(16, activation="relu"), nn.BatchNorm(), nn.Dense(3))
    net.initialize(initializer.Xavier())
    net.hybridize()
    trainer = Trainer(net.collect_params(), "adam", {"learning_rate": 0.05})
    amp.init_trainer(trainer)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(96, 4)).astype(np.float32)
    y = (x @ rng.normal(size=(4, 3))).argmax(axis=1)
    data, label, cross_entropy = nd.array(x), nd.array(y), loss.SoftmaxCrossEntropyLoss()
    for _ in range(40):
        with autograd.record():
            value = cross_entropy(net(data), label)
            with amp.scale_loss(value, trainer) as scaled:
                autograd.backward(scaled)
        trainer.step(len(x))
    assert value.mean().asscalar() < 0.2
    assert net[0].weight.data().dtype == np.float32
    exact = nd.dot(data, net[0].weight.data().T) + net[0].bias.data()
    first = nn.HybridSequential()
    first.add(net[0])
    first.hybridize()
    difference = np.abs(first(data).asnumpy() - nd.relu(exact).asnumpy()).max()
    assert 0 < difference < 0.1, "the products compute in 16 bits"


def test_small_gradients_of_float16_survive_by_the_scale() -> None:
    graphs.init("float16")
    net, trainer = made()
    net.cast("float16")
    amp.init_trainer(trainer)
    for scaled_by, expected in ((True, [1e-3, 2e-3]), (False, [0, 0])):
        with autograd.record():
            value = net(nd.array([[1, 2]], dtype="float16")).astype("float32") * 1e-8
            with amp.scale_loss(value, trainer) as scaled:
                autograd.backward(scaled if scaled_by else value)
        found = net.weight.grad().asnumpy().astype(float)
        assert np.allclose(found, np.array(expected) * (0.65536 if scaled_by else 0), rtol=0.01)


# ---- blocks ----


def small() -> nn.HybridSequential:
    net = nn.HybridSequential()
    net.add(nn.Dense(8, activation="relu"), nn.BatchNorm(), nn.Dense(3))
    net.initialize(initializer.Xavier())
    net.hybridize()
    return net


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("cast", [False, True])
def test_converted_blocks_compute_in_16_bits(dtype: str, cast: bool) -> None:
    random.seed(1)
    net, x = small(), nd.random.normal(shape=(5, 4))
    expected: NDArray = net(x)
    made = amp.convert_hybrid_block(net, dtype, cast_optional_params=cast)
    found = made(x)
    assert found.dtype == np.float32
    difference = np.abs(found.asnumpy() - expected.asnumpy()).max()
    assert 0 < difference < 0.05
    types = {name.rpartition("_")[2]: np.dtype(p.dtype).name for name, p in made.collect_params().items()}
    assert types["weight"] == (dtype if cast else "float32")
    assert types["gamma"] == "float32"
    weights = [p for name, p in made.collect_params().items() if name.endswith("weight")]
    weights[0].set_data(nd.zeros(weights[0].shape))
    assert np.array_equal(net(x).asnumpy(), expected.asnumpy()), "the parameters are copies"


def test_nodes_can_be_left_out() -> None:
    net, x = small(), nd.ones((2, 4))
    expected = net(x)
    exact = amp.convert_hybrid_block(net, fp32_ops=["FullyConnected"])
    assert np.allclose(exact(x).asnumpy(), expected.asnumpy(), atol=1e-6)


# ---- mistakes ----


def test_mistakes_are_told() -> None:
    net, trainer = made()
    with pytest.raises(MXNetError, match=r"\[amp.init_trainer\] call amp.init first"):
        amp.init_trainer(trainer)
    with (
        pytest.raises(MXNetError, match="call amp.init_trainer with it first"),
        amp.scale_loss(nd.ones(1), trainer),
    ):
        pass
    assert amp.unscale(trainer) is None
    with pytest.raises(ArgumentError, match="target_dtype: expected one of bfloat16, float16, got 'int8'"):
        graphs.init("int8")
    graphs.init()
    with pytest.raises(ArgumentError, match="expected a Trainer of Gluon, got 3"):
        amp.init_trainer(3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="expected a HybridBlock, got 3"):
        amp.convert_hybrid_block(3)  # type: ignore[arg-type]
    with pytest.raises(MXNetError, match="call hybridize, and the block once"):
        amp.convert_hybrid_block(net)


def test_trainers_of_a_program_keep_their_class() -> None:
    class Mine(Trainer):
        def more(self) -> str:
            return "more"

    graphs.init("float16")
    net = Products()
    net.initialize()
    trainer = Mine(net.collect_params(), "sgd")
    amp.init_trainer(trainer)
    amp.init_trainer(trainer)
    assert isinstance(trainer, Mine)
    assert trainer.more() == "more"


def test_checkpoints_have_the_scale(tmp_path: Path) -> None:
    graphs.init("float16")
    net, trainer = made()
    amp.init_trainer(trainer)
    training = Training(tmp_path, net, trainer)
    for _ in training.watch([0]):
        step(net, trainer, INF)
        step(net, trainer, INF)
        step(net, trainer)
    other, again = made()
    amp.init_trainer(again)
    assert list(Training(tmp_path, other, again).watch([0])) == []
    assert step(other, again) == step(net, trainer)
    assert again._amp_loss_scaler.loss_scale == 16384  # type: ignore[attr-defined]


class Logging(Trainer):
    """A program's class."""

    def told(self) -> str:
        return f"{len(self._params)} parameters"


@pytest.mark.parametrize("kind", [Trainer, Logging])
@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_of_a_trainer_scales(kind: type[Trainer], duplicate: Any) -> None:
    graphs.init("float16")
    net, _ = made()
    trainer = kind(net.collect_params(), "sgd", {"learning_rate": 0.5, "momentum": 0.9})
    amp.init_trainer(trainer)
    step(net, trainer, factor=INF)
    step(net, trainer)
    copied_net, copied = duplicate((net, trainer))
    assert type(copied).__name__ == type(trainer).__name__ and isinstance(copied, kind)
    assert kind is Trainer or copied.told() == "1 parameters"
    for _ in range(2):
        assert step(copied_net, copied) == step(net, trainer)
    assert copied._amp_loss_scaler is not trainer._amp_loss_scaler  # type: ignore[attr-defined]


def test_the_scale_has_an_end(caplog: pytest.LogCaptureFixture) -> None:
    graphs.init("float16")
    net, trainer = made()
    amp.init_trainer(trainer)
    for number in range(200):
        assert bool(caplog.records) == (number >= 40)
        step(net, trainer, factor=INF)
    assert trainer._amp_loss_scaler.loss_scale == 2.0**-126  # type: ignore[attr-defined]
    (record,) = caplog.records
    assert "40 steps in a row" in record.message and "learning rate" in record.message
