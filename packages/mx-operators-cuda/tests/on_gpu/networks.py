# SPDX-License-Identifier: Apache-2.0
"""Whole networks trained on a GPU, real or fake, against the same on the CPU; see `plans.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mx_core import cpu, gpu
from mx_ndarray import nd, random
from mx_symbol import sym
from testkit.gpu_kernels import FAKE


def lenet() -> Any:
    """Two convolutions, pooling, dropout that keeps everything, two layers."""
    x = sym.Variable("data")
    for i, filters in enumerate((4, 6)):
        x = sym.Convolution(x, kernel=(3, 3), num_filter=filters, name=f"conv{i}")
        x = sym.Pooling(sym.Activation(x, act_type="tanh"), kernel=(2, 2), stride=(2, 2), pool_type="max")
    x = sym.Activation(sym.FullyConnected(sym.Flatten(x), num_hidden=20, name="fc0"), act_type="relu")
    x = sym.FullyConnected(sym.Dropout(x, p=0.3), num_hidden=4, name="fc1")
    return sym.SoftmaxOutput(x, name="softmax", normalization="batch")


def unit(x: Any, filters: int, name: str, kernel: int = 3, stride: int = 1) -> Any:
    x = sym.Convolution(
        x, kernel=(kernel, kernel), num_filter=filters, stride=(stride, stride), pad=(kernel // 2,) * 2,
        no_bias=True, name=f"{name}_conv",
    )  # fmt: skip
    return sym.BatchNorm(x, fix_gamma=False, name=f"{name}_bn")


def resnet() -> Any:
    """The layers of ResNet-18 with few filters: stem, four stages of residual blocks, global pooling."""
    x = sym.Activation(unit(sym.Variable("data"), 4, "stem", stride=2), act_type="relu")
    x = sym.Pooling(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="max")
    for stage, filters in enumerate((4, 6, 8, 10)):
        for block in range(2):
            name, stride = f"s{stage}b{block}", 2 if stage and not block else 1
            y = sym.Activation(unit(x, filters, f"{name}a", stride=stride), act_type="relu")
            y = unit(y, filters, f"{name}b")
            x = unit(x, filters, f"{name}d", kernel=1, stride=stride) if stage and not block else x
            x = sym.Activation(y + x, act_type="relu")
    x = sym.Pooling(x, global_pool=True, kernel=(1, 1), pool_type="avg")
    return sym.SoftmaxOutput(sym.FullyConnected(sym.Flatten(x), num_hidden=4, name="fc"), name="softmax")


def language_model() -> Any:
    """Embedding, two LSTM layers with dropout between them, a distribution for each token."""
    x = sym.Embedding(sym.Variable("data"), input_dim=11, output_dim=6, name="embed")
    x = sym.RNN(x, state_size=5, num_layers=2, mode="lstm", p=0.2, name="lstm")
    x = sym.FullyConnected(sym.Reshape(x, shape=(-1, 5)), num_hidden=11, name="fc")
    return sym.SoftmaxOutput(x, name="softmax", normalization="batch")


def transformer() -> Any:
    """A block of self-attention and one of two layers, with normalization before each, over tokens (L, N)."""
    x = sym.Embedding(sym.Variable("data"), input_dim=11, output_dim=8, name="embed")
    y = sym.FullyConnected(sym.LayerNorm(x, name="ln0"), num_hidden=24, flatten=False, name="qkv")
    scores = sym.contrib.interleaved_matmul_selfatt_qk(y, heads=2)
    attention = sym.Dropout(sym.softmax(scores, axis=-1), p=0.1)
    y = sym.contrib.interleaved_matmul_selfatt_valatt(y, attention, heads=2)
    x = x + sym.FullyConnected(y, num_hidden=8, flatten=False, name="projection")
    y = sym.FullyConnected(sym.LayerNorm(x, name="ln1"), num_hidden=12, flatten=False, name="inner")
    y = sym.FullyConnected(sym.LeakyReLU(y, act_type="gelu"), num_hidden=8, flatten=False, name="outer")
    x = sym.Reshape(sym.LayerNorm(x + y, name="ln2"), shape=(-1, 8))
    return sym.SoftmaxOutput(
        sym.FullyConnected(x, num_hidden=11, name="fc"), name="softmax", normalization="batch"
    )


def trained(net: Any, shape: tuple[int, ...], ctx: Any, steps: int = 2) -> dict[str, np.ndarray]:
    """Outputs, gradients, weights and statistics after some steps, then the output of inference."""
    executor = net.simple_bind(ctx, data=shape)
    rng = np.random.default_rng(3)
    for name, array in {**executor.arg_dict, **executor.aux_dict}.items():
        values = rng.normal(size=array.shape) * (1 if name == "data" else 0.4)
        array[:] = np.abs(values) + 0.7 if name.endswith(("var", "gamma")) else values
    if len(shape) == 2:
        executor.arg_dict["data"][:] = rng.integers(0, 11, shape)
    label = executor.arg_dict["softmax_label"]
    label[:] = np.arange(label.size) % 4
    weights = {name: a for name, a in executor.arg_dict.items() if name not in ("data", "softmax_label")}
    moments = {name: nd.zeros(a.shape, ctx=ctx) for name, a in weights.items()}
    random.seed(7, ctx)
    for _ in range(steps):
        executor.forward(is_train=True)
        executor.backward()
        for name, weight in weights.items():
            nd.sgd_mom_update(
                weight, executor.grad_dict[name], moments[name], lr=0.02, momentum=0.9, out=weight
            )
    found = {"output": executor.outputs[0].asnumpy()}
    found |= {f"{name} gradient": executor.grad_dict[name].asnumpy() for name in weights}
    found |= {name: a.asnumpy() for name, a in {**weights, **executor.aux_dict}.items()}
    return {**found, "inference": executor.forward(is_train=False)[0].asnumpy()}


def assert_trains_alike(net: Any, shape: tuple[int, ...]) -> None:
    found, wanted = trained(net, shape, gpu(0)), trained(net, shape, cpu())
    for name, value in wanted.items():
        scale = np.abs(value).max() + 1e-3
        np.testing.assert_allclose(found[name] / scale, value / scale, atol=2e-3, err_msg=name)


#: builder and shape of the data; the first ones run everywhere
NETWORKS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "lenet": (lenet, (3, 1, 14, 14)), "resnet": (resnet, (4, 3, 32, 32)),
    "language_model": (language_model, (5, 3)), "transformer": (transformer, (5, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", list(NETWORKS)[: 2 if FAKE else None])
def test_networks_train_alike(name: str) -> None:
    build, shape = NETWORKS[name]
    assert_trains_alike(build(), shape)
