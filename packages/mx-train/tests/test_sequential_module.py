# SPDX-License-Identifier: Apache-2.0
from typing import Any

import numpy as np
import pytest

from mx_core.errors import ArgumentError
from mx_io import io
from mx_ndarray import NDArray, nd
from mx_symbol import sym
from mx_train import initializer
from mx_train.module import Module, PythonLossModule, SequentialModule

SHAPES: Any = [("data", (30, 8))], [("softmax_label", (30,))]


def features() -> Any:
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=16, name="fc1")
    return sym.Activation(net, act_type="relu", name="relu1")


def head(data: Any) -> Any:
    return sym.FullyConnected(data, num_hidden=3, name="fc2")


def problem() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 8)).astype(np.float32)
    return x, (x @ rng.normal(size=(8, 3))).argmax(1).astype(np.float32)


def parameters() -> dict[str, NDArray]:
    rng = np.random.default_rng(1)
    shapes = {"fc1_weight": (16, 8), "fc1_bias": (16,), "fc2_weight": (3, 16), "fc2_bias": (3,)}
    return {name: nd.array(rng.normal(size=shape, scale=0.3)) for name, shape in shapes.items()}


def chain() -> SequentialModule:
    loss = sym.SoftmaxOutput(head(sym.Variable("features")), name="softmax")
    last = Module(loss, data_names=["features"])
    return (
        SequentialModule()
        .add(Module(features(), label_names=[]))
        .add(last, take_labels=True, auto_wiring=True)
    )


def softmax_gradient(scores: NDArray, labels: NDArray) -> NDArray:
    grad = nd.softmax(scores)
    chosen = nd.one_hot(labels, depth=scores.shape[1])
    result: NDArray = grad - chosen
    return result


def test_a_chain_trains_as_the_whole_network_does() -> None:
    x, y = problem()
    whole = Module(sym.SoftmaxOutput(head(features()), name="softmax"))
    loss = PythonLossModule(data_names=["fc2_output"], grad_func=softmax_gradient)
    scores = Module(head(sym.Variable("relu1_output")), data_names=["relu1_output"], label_names=[])
    python = (
        SequentialModule().add(Module(features(), label_names=[])).add(scores).add(loss, take_labels=True)
    )
    found = []
    for module in (whole, chain(), python):
        module.fit(
            io.NDArrayIter(x, y, 30), num_epoch=3, arg_params=parameters(), allow_missing=False,
            optimizer_params={"learning_rate": 0.1, "momentum": 0.9, "rescale_grad": 1 / 30},
        )  # fmt: skip
        found.append(module.get_params()[0])
        assert module.score(io.NDArrayIter(x, y, 30), "acc")[0][1] > 0.8
    for other in found[1:]:
        assert set(other) == set(found[0])
        for name, value in other.items():
            np.testing.assert_allclose(value.asnumpy(), found[0][name].asnumpy(), rtol=1e-4, atol=1e-5)


def test_names_and_gradients_of_the_ends() -> None:
    module = chain()
    module.bind(*SHAPES, inputs_need_grad=True)
    module.init_params(initializer.Xavier())
    assert (module.data_names, module.output_names, module.label_names) == (
        ["data"], ["softmax_output"], ["softmax_label"],
    )  # fmt: skip
    assert module.output_shapes == [("softmax_output", (30, 3))]
    module.forward_backward(io.DataBatch([nd.ones((30, 8))], [nd.zeros((30,))]))
    (grad,) = module.get_input_grads()
    assert grad.shape == (30, 8) and (grad.asnumpy() != 0).any()


def test_mistakes_are_explained() -> None:
    with pytest.raises(ArgumentError, match="expected take_labels or auto_wiring, got take_label"):
        SequentialModule().add(Module(features(), label_names=[]), take_label=True)
    with pytest.raises(ArgumentError, match="add modules first"):
        SequentialModule().bind(*SHAPES)
    first, second = (Module(features(), label_names=[]) for _ in range(2))
    twice = SequentialModule().add(first).add(second, auto_wiring=True)
    twice.bind(*SHAPES)
    with pytest.raises(ArgumentError, match="modules 0 and 1 both have a parameter 'fc1_weight'"):
        twice.init_params()
    loss = PythonLossModule(grad_func=softmax_gradient)
    loss.bind([("data", (30, 3))], [("softmax_label", (30,))])
    with pytest.raises(ArgumentError, match="needs a forward with labels"):
        loss.backward()
