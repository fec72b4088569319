# SPDX-License-Identifier: Apache-2.0
"""SVRGModule makes the steps of MXNet 1.9.1 until the second snapshot, to which MXNet adds the first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mx_core import cpu
from mx_core.errors import ArgumentError, MXNetError
from mx_io.io import NDArrayIter
from mx_symbol import sym
from mx_train import initializer, metric
from mx_train.checkpoint import Training
from mx_train.module.svrg_module import SVRGModule

X = np.random.RandomState(0).uniform(-1, 1, (24, 4)).astype(np.float32)
Y = X @ np.array([1, 2, -1, 0.5], np.float32)
NAMES: dict[str, Any] = {"data_names": ["data"], "label_names": ["lin_label"]}


def net() -> Any:
    return sym.LinearRegressionOutput(
        sym.FullyConnected(sym.var("data"), num_hidden=1, name="fc"), sym.var("lin_label"), name="lin"
    )


def data(batch_size: int = 8) -> NDArrayIter:
    return NDArrayIter(X, Y, batch_size, label_name="lin_label")


def made(update_freq: int = 2, **settings: Any) -> SVRGModule:
    return SVRGModule(net(), update_freq=update_freq, **NAMES, **settings)


def fit(module: SVRGModule, optimizer: str = "sgd", source: Any = None, epochs: int = 4) -> list[float]:
    seen: list[float] = []
    module.fit(
        data() if source is None else source, eval_metric="mse", num_epoch=epochs, initializer=initializer.One(), optimizer=optimizer,
        optimizer_params={"learning_rate": 0.1}, batch_end_callback=lambda p: seen.append(p.eval_metric.get()[1]),
    )  # fmt: skip
    return seen


def weights(module: SVRGModule) -> Any:
    return module.get_params()[0]["fc_weight"].asnumpy().ravel()


def test_steps_are_those_of_mxnet_until_the_second_snapshot() -> None:
    seen = fit(made())
    assert np.allclose(
        seen[:7], [1.70931, 1.574123, 1.595053, 1.369112, 1.273958, 1.28504, 1.108863], atol=2e-6
    )
    assert np.allclose(fit(made(), "adam")[2:6:3], [1.498897, 0.975974], atol=1e-5)


def test_a_snapshot_of_the_present_parameters_gives_the_mean_gradient() -> None:
    """With one batch, and with the parameters of the snapshot, nothing is left of the batch's own gradient."""
    module = made(1)
    fit(module, source=data(), epochs=3)
    module.update_full_grads(data())
    means = {name: sum(array.asnumpy() for array in arrays) for name, arrays in module._full_grads.items()}
    source = data()
    for batch in source:
        module.forward_backward(batch)
        own = {name: arrays[0].copy() for name, arrays in module._gradients(module)}
        kept = {name: arrays[0] for name, arrays in module._gradients(module._mod_aux)}
        for name, mean in means.items():
            assert np.allclose((own[name] - kept[name]).asnumpy() + mean, mean, atol=1e-6)
    prediction = X @ weights(module) + module.get_params()[0]["fc_bias"].asnumpy()
    expected = (prediction - Y) @ X / 3  # the sums of the batches of 8, their mean
    assert np.allclose(means["fc_weight"].ravel(), expected, rtol=1e-4, atol=1e-5)


def test_two_contexts_make_the_steps_of_one() -> None:
    one, two = made(), made(context=[cpu(0), cpu(1)])
    assert np.allclose(fit(one), fit(two), rtol=1e-4)
    assert np.allclose(weights(one), weights(two), rtol=1e-4)


def test_a_loop_of_its_own() -> None:
    module, source, value = made(), data(), metric.create("mse")
    module.bind(source.provide_data, source.provide_label)
    module.init_params(initializer.One())
    module.init_optimizer(optimizer_params={"learning_rate": 0.1})
    for epoch in range(4):
        value.reset()
        if epoch % module.update_freq == 0:
            module.update_full_grads(source)
        source.reset()
        for batch in source:
            module.forward_backward(batch)
            module.update()
            module.update_metric(value, batch.label)
    reference = made()
    assert value.get()[1] == fit(reference)[-1]
    assert np.array_equal(weights(module), weights(reference))


def test_other_shapes() -> None:
    module = made()
    fit(module, epochs=1)
    module.reshape([("data", (4, 4))], [("lin_label", (4,))])
    module.forward_backward(next(data(4)))
    module.update()


@pytest.mark.parametrize("wrong", [None, 0, -1, 1.5])
def test_wrong_frequencies_are_refused(wrong: Any) -> None:
    with pytest.raises(ArgumentError, match="update_freq: expected the epochs between two snapshots"):
        made(wrong)


def test_mistakes_are_told(tmp_path: Path) -> None:
    module = made()
    with pytest.raises(ArgumentError, match="checkpoints have no snapshot"):
        fit(module, source=Training(tmp_path, module).watch(data()))
    empty: Any = data()
    empty.reset = lambda: None
    for _ in empty:
        pass
    with pytest.raises(MXNetError, match="expected batches, got none"):
        module.update_full_grads(empty)
