# SPDX-License-Identifier: Apache-2.0
"""Trainer and Module with a store that compresses gradients: what a step leaves out comes later."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import cpu
from mx_core.errors import ArgumentError
from mx_gluon import Parameter, ParameterDict, Trainer
from mx_io import io
from mx_ndarray import autograd, nd
from mx_symbol import sym
from mx_train.module import Module
from testkit import compression as model

CONTEXTS = [cpu(0), cpu(1)]


@pytest.mark.parametrize("kind", ["2bit", "1bit"])
@pytest.mark.parametrize("in_store", [False, True])
def test_a_trainer_steps_by_what_is_sent(kind: str, in_store: bool) -> None:
    params = ParameterDict()
    weight: Parameter = params.get("w", shape=(6,), init="zeros")
    params.initialize(ctx=CONTEXTS)
    trainer = Trainer(
        params, "sgd", {"learning_rate": 1}, kvstore="device", update_on_kvstore=in_store,
        compression_params={"type": kind, "threshold": 0.5},
    )  # fmt: skip
    rng = np.random.default_rng(0)
    expected, residuals = np.zeros(6, np.float32), [np.zeros(6, np.float32)] * 2
    for _ in range(5):
        slopes = rng.normal(size=(2, 6), scale=0.6).astype(np.float32)
        with autograd.record():
            losses = [
                (weight.data(c) * nd.array(s, ctx=c)).sum() for s, c in zip(slopes, CONTEXTS, strict=True)
            ]
        for loss in losses:
            loss.backward()
        trainer.step(1)
        for i, slope in enumerate(slopes):
            values, residuals[i] = model.sent(kind, 0.5, slope, residuals[i])
            expected = expected - values
        for context in CONTEXTS:
            np.testing.assert_allclose(weight.data(context).asnumpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("setting", ["0", "1"])
def test_a_module_learns_with_two_bits(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXNET_UPDATE_ON_KVSTORE", setting)
    x = np.random.default_rng(3).normal(size=(80, 5)).astype(np.float32)
    y = (x.sum(axis=1) > 0).astype(np.float32)
    net = sym.SoftmaxOutput(sym.FullyConnected(sym.Variable("data"), num_hidden=2, name="fc"), name="softmax")
    module = Module(net, context=CONTEXTS, compression_params={"type": "2bit", "threshold": 0.25})
    data = io.NDArrayIter(x, y, 20)
    module.fit(data, num_epoch=15, kvstore="device", optimizer_params={"learning_rate": 0.5})
    assert module._update_on_kvstore is (setting == "1")
    assert module.score(data, "acc")[0][1] > 0.9


def test_wrong_parameters_are_refused() -> None:
    def made(**params: Any) -> Trainer:
        weights = ParameterDict()
        weights.get("w", shape=(2,), init="zeros")
        weights.initialize(ctx=CONTEXTS)
        return Trainer(weights, "sgd", kvstore="device", compression_params=params)

    for params, match in (
        ({"type": "8bit"}, "type: expected one of 1bit, 2bit, got '8bit'"),
        ({"type": "2bit", "threshold": -1}, "threshold: expected a positive number, got -1"),
    ):
        with pytest.raises(ArgumentError, match=match):
            made(**params).allreduce_grads()
