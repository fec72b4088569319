# SPDX-License-Identifier: Apache-2.0
"""Training in 16 bits on a GPU, real or fake: casts, channels last, scaled losses; see `plans.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from mx_core import cpu, gpu
from mx_gluon import Trainer, amp, loss, nn
from mx_ndarray import autograd, nd
from mx_symbol import amp as graphs
from mx_symbol import passes, sym
from mx_symbol.passes import cast_rules
from mx_symbol.passes.stages import trace

SHAPE = (3, 2, 8, 8)


@pytest.fixture(autouse=True)
def off() -> Iterator[None]:
    """Mixed precision ends with the test."""
    yield
    passes.always("amp", False)
    cast_rules.use(cast_rules.Lists())


def network() -> Any:
    x = sym.Convolution(sym.Variable("data"), kernel=(3, 3), num_filter=4, pad=(1, 1), name="conv0")
    x = sym.Activation(sym.BatchNorm(x, fix_gamma=False, name="bn"), act_type="relu")
    x = x + sym.Convolution(x, kernel=(3, 3), num_filter=4, pad=(1, 1), name="conv1")
    x = sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max")
    x = sym.FullyConnected(sym.Flatten(x), num_hidden=3, name="fc")
    return sym.SoftmaxOutput(x, name="softmax", normalization="batch")


def trained(ctx: Any, given: str) -> dict[str, np.ndarray]:
    """Output and weights after two steps."""
    executor = network().simple_bind(ctx, data=SHAPE, passes=given)
    rng = np.random.default_rng(3)
    for name, array in {**executor.arg_dict, **executor.aux_dict}.items():
        values = rng.normal(size=array.shape) * (1 if name == "data" else 0.4)
        array[:] = np.abs(values) + 0.7 if name.endswith(("var", "gamma")) else values
    executor.arg_dict["softmax_label"][:] = np.arange(SHAPE[0])
    weights = {n: a for n, a in executor.arg_dict.items() if n not in ("data", "softmax_label")}
    for _ in range(2):
        executor.forward(is_train=True)
        executor.backward()
        for name, weight in weights.items():
            nd.sgd_update(weight, executor.grad_dict[name], lr=0.05, out=weight)
    found = {n: a.asnumpy() for n, a in {**weights, **executor.aux_dict}.items()}
    return {**found, "inference": executor.forward(is_train=False)[0].asnumpy()}


def assert_near(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray], limit: float) -> None:
    for name, value in wanted.items():
        assert found[name].dtype == np.float32
        error = np.linalg.norm(found[name] - value) / np.linalg.norm(value)
        assert error <= limit, f"{name}: {error}"


@pytest.mark.parametrize(("dtype", "limit"), [("bfloat16", 1e-2), ("float16", 3e-3)])
def test_training_in_16_bits_has_the_numbers_of_the_cpu(dtype: str, limit: float) -> None:
    exact = trained(cpu(), "")
    graphs.init(dtype)
    wanted, found = trained(cpu(), ""), trained(gpu(0), "")
    assert_near(found, wanted, limit)
    assert any((found[name] != exact[name]).any() for name in found)
    assert_near(trained(gpu(0), "-channels-last,-channels-last-training"), wanted, limit)


@pytest.mark.parametrize("is_train", [False, True])
def test_convolutions_of_16_bits_have_their_channels_last(is_train: bool) -> None:
    def layouts() -> set[Any]:
        *_, last = trace(network(), {"data": SHAPE}, is_train, context=gpu(0))
        return {
            n.params.layout
            for n in last.after.find("Convolution", "_backward_Convolution", "_fused_Convolution")
        }

    assert layouts() <= {None, "NCHW"}
    graphs.init("float16")
    assert layouts() == {"NHWC"}


def trained_block(ctx: Any) -> tuple[np.ndarray, list[float]]:
    """Parameters after some steps, and the scale of the loss in each."""
    net = nn.HybridSequential()
    net.add(nn.Dense(6, activation="tanh", in_units=4), nn.Dense(3, in_units=6))
    net.initialize(ctx=ctx)
    rng = np.random.default_rng(5)
    for parameter in net.collect_params().values():
        parameter.set_data(nd.array(rng.normal(size=parameter.shape), ctx=ctx))
    net.hybridize()
    trainer = Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    amp.init_trainer(trainer)
    criterion = loss.SoftmaxCrossEntropyLoss()
    x, label = nd.array(rng.normal(size=(5, 4)), ctx=ctx), nd.array(np.arange(5) % 3, ctx=ctx)
    scales = []
    for _ in range(6):
        with autograd.record():
            losses = criterion(net(x), label)
            with amp.scale_loss(losses, trainer) as scaled:
                scales.append(float((scaled / losses).asnumpy()[0]))
                autograd.backward(scaled)
        trainer.step(5)
    return np.concatenate([p.data().asnumpy().ravel() for p in net.collect_params().values()]), scales


def test_the_feature_is_told() -> None:
    """`mx.runtime` says that cuDNN is here."""
    mx = pytest.importorskip("mx")
    assert mx.runtime.Features().is_enabled("CUDNN")


def test_a_scaled_loss_trains_as_on_the_cpu() -> None:
    """The first scale is too large for float16: such steps are left out, and halve it."""
    graphs.init("float16")
    (found, scales), (wanted, expected) = trained_block(gpu(0)), trained_block(cpu())
    assert scales == expected and scales[-1] < scales[0]
    np.testing.assert_allclose(found, wanted, atol=2e-3)
