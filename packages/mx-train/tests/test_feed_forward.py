# SPDX-License-Identifier: Apache-2.0
"""The older front end; weights as MXNet 1.9.1 trains them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mx_core import cpu
from mx_core.errors import ArgumentError
from mx_io import io
from mx_ndarray import nd
from mx_symbol import sym
from mx_train import model
from mx_train.lr_scheduler import FactorScheduler
from mx_train.metric import Accuracy
from mx_train.model import BatchEndParam, FeedForward
from mx_train.optimizer import SGD

pytestmark = [pytest.mark.timeout(60), pytest.mark.filterwarnings("ignore:FeedForward is deprecated")]

DRAW = np.random.RandomState(0)
X = DRAW.rand(20, 4).astype("float32")
Y = DRAW.randint(0, 3, 20).astype("float32")
WEIGHT, BIAS = DRAW.rand(3, 4), DRAW.rand(3)


def network() -> Any:
    return sym.SoftmaxOutput(
        sym.FullyConnected(sym.Variable("data"), num_hidden=3, name="fc"), name="softmax"
    )


def made(**kwargs: Any) -> FeedForward:
    start = {"fc_weight": nd.array(WEIGHT), "fc_bias": nd.array(BIAS)}
    return FeedForward(network(), num_epoch=3, arg_params=start, **{"learning_rate": 0.5, **kwargs})


def batches() -> io.NDArrayIter:
    return io.NDArrayIter(X, Y, 6)


@pytest.mark.parametrize(
    ("settings", "bias"),
    [
        ({}, [0.54599, 0.10456, 0.73682]),
        ({"wd": 0.1}, [0.47651, 0.06673, 0.84413]),
        ({"momentum": 0.9}, [0.34225, 0.10531, 0.93982]),
        ({"epoch_size": 3}, [0.55278, 0.09911, 0.73548]),
        ({"epoch_size": 5}, [0.56966, 0.14834, 0.66937]),
        ({"begin_epoch": 1}, [0.54947, 0.14966, 0.68825]),
    ],
)
def test_training_is_mxnets(settings: dict[str, Any], bias: list[float]) -> None:
    seen: list[Any] = []

    def after_batch(param: BatchEndParam) -> None:
        seen.append(param.nbatch)

    trained = made(**settings)
    trained.fit(batches(), batch_end_callback=after_batch)
    assert trained.arg_params is not None
    np.testing.assert_allclose(trained.arg_params["fc_bias"].asnumpy(), bias, atol=1e-5)
    per_epoch = settings.get("epoch_size", 4)
    assert seen == [*range(1, per_epoch + 1)] * (3 - settings.get("begin_epoch", 0))


@pytest.mark.filterwarnings("ignore:.*rescale_grad")
@pytest.mark.parametrize(
    ("settings", "fitting", "bias"),
    [
        ({"ctx": [cpu(0), cpu(1)]}, {}, [0.54599, 0.10456, 0.73682]),
        ({"optimizer": "adam", "learning_rate": 0.01}, {}, [0.54901, 0.49365, 0.32688]),
        ({"lr_scheduler": FactorScheduler(2, 0.5)}, {"kvstore": "device"}, [0.49042, 0.36152, 0.53544]),
        ({"clip_gradient": 0.01}, {"kvstore": None}, [0.56204, 0.54225, 0.28308]),
        (
            {"optimizer": SGD(learning_rate=0.1, momentum=0.9, rescale_grad=0.05), "learning_rate": None},
            {},
            [0.51996, 0.27705, 0.59036],
        ),
    ],
)
def test_optimizers_devices_and_stores_train_as_mxnets(
    settings: dict[str, Any], fitting: dict[str, Any], bias: list[float]
) -> None:
    given = {"learning_rate": 0.5} | settings
    start = {"fc_weight": nd.array(WEIGHT), "fc_bias": nd.array(BIAS)}
    given = {name: value for name, value in given.items() if value is not None}
    trained = FeedForward(network(), num_epoch=3, arg_params=start, **given)
    trained.fit(batches(), **fitting)
    assert trained.arg_params is not None
    np.testing.assert_allclose(trained.arg_params["fc_bias"].asnumpy(), bias, atol=1e-5)


def test_predictions_and_scores() -> None:
    trained = made()
    trained.fit(batches())
    from_iterator, from_array = trained.predict(batches()), trained.predict(X)
    assert from_iterator.shape == (20, 3)
    np.testing.assert_allclose(from_iterator, from_array, rtol=1e-5)
    outputs, data, labels = trained.predict(batches(), return_data=True)
    assert (outputs.shape, data.tolist(), labels.tolist()) == ((20, 3), X.tolist(), Y.tolist())
    assert trained.predict(batches(), num_batch=2).shape == (12, 3)
    right = (from_array.argmax(1) == Y).mean()
    assert trained.score(batches()) == pytest.approx(right)
    assert trained.score(batches(), Accuracy(), num_batch=1) == pytest.approx(
        (from_array[:6].argmax(1) == Y[:6]).mean()
    )
    both = trained.score(batches(), ["acc", "ce"])
    assert both[0] == pytest.approx(right) and len(both) == 2


def test_arrays_and_what_is_validated() -> None:
    seen: list[float] = []

    def after_validation(param: BatchEndParam) -> None:
        seen.append(param.eval_metric.get()[1])

    for given in (X, nd.array(X)):
        trained = FeedForward.create(
            network(), given, nd.array(Y.reshape(20, 1)), num_epoch=2, learning_rate=0.1, numpy_batch_size=5,
            eval_data=(X.tolist(), Y), eval_end_callback=after_validation,
        )  # fmt: skip
        assert trained.arg_params is not None and trained.arg_params["fc_weight"].shape == (3, 4)
    assert len(seen) == 4


def test_several_outputs_are_a_list() -> None:
    net = network()
    net = sym.Group([net, net.get_internals()["fc_output"] * 2])
    outputs = FeedForward(net, arg_params=made().arg_params).predict(X)
    assert [output.shape for output in outputs] == [(20, 3), (20, 3)]


def test_a_checkpoint_goes_on(tmp_path: Path) -> None:
    trained = made()
    trained.fit(batches())
    trained.save(str(tmp_path / "net"))
    again = FeedForward.load(str(tmp_path / "net"), 3, num_epoch=4)
    assert again.begin_epoch == 3
    np.testing.assert_array_equal(again.predict(X), trained.predict(X))
    again.fit(batches())
    assert model.load_params(str(tmp_path / "net"), 3)[0]["fc_bias"].shape == (3,)


def test_what_cannot_be_is_refused() -> None:
    with pytest.warns(FutureWarning, match="use mx.mod.Module") as seen:
        fresh = FeedForward(network(), num_epoch=1)
    assert seen[0].filename == __file__
    for error, match, call in (
        (ArgumentError, "labels must be given", lambda: fresh.fit(X)),
        (ArgumentError, r"expected 20 labels, got shape \(5,\)", lambda: fresh.fit(X, Y[:5])),
        (ArgumentError, r"expected 20 labels, got shape \(20, 2\)", lambda: fresh.fit(X, np.zeros((20, 2)))),
        (TypeError, "X: expected a DataIter or an array, got str", lambda: fresh.fit("x")),
        (TypeError, r"eval_data: expected a DataIter or \(X, y\)", lambda: fresh.fit(X, Y, eval_data=X)),
        (ArgumentError, "there are no parameters: call fit", lambda: fresh.predict(X)),
        (ArgumentError, "nothing to save", lambda: fresh.save("net")),
        (ArgumentError, "how many epochs", lambda: FeedForward(network()).fit(X, Y)),
        (TypeError, "BucketingModule takes a function", lambda: FeedForward(lambda length: None)),
        (
            ArgumentError,
            "the symbol has no other",
            lambda: FeedForward(network(), arg_params={"other": nd.ones(1)}),
        ),
    ):
        with pytest.raises(error, match=match):
            call()  # type: ignore[no-untyped-call]
    extra = FeedForward(network(), arg_params={"other": nd.ones(1)}, allow_extra_params=True)
    assert extra.arg_params == {}
    with pytest.raises(AttributeError, match="FeedBackward"):
        model.FeedBackward


def test_predictions_need_no_labels() -> None:
    trained = made()
    trained.fit(batches())
    np.testing.assert_array_equal(
        trained.predict(io.NDArrayIter(X, batch_size=6)), trained.predict(batches())
    )
