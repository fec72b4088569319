# SPDX-License-Identifier: Apache-2.0
"""The worked examples of MXNet's architecture notes and operator tutorial run as written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mx

DATA = Path(__file__).parent / "data"
COEFFICIENTS = {"a": 1.5, "b": -2.0, "c": 0.5}


@pytest.mark.parametrize("sigma", [1.0, 2.0])
def test_smooth_l1(sigma: float) -> None:
    x = np.array([-2, -0.3, -0.1, 0, 0.1, 0.3, 2], np.float32)
    inside = np.abs(x) < 1 / sigma**2
    value = np.where(inside, (sigma * x) ** 2 / 2, np.abs(x) - 0.5 / sigma**2)
    slope = np.where(inside, sigma**2 * x, np.sign(x))
    data = mx.nd.array(x)
    data.attach_grad()
    with mx.autograd.record():
        y = mx.nd.smooth_l1(data, scalar=sigma)
    y.backward(mx.nd.full(x.shape, 3))
    np.testing.assert_allclose(y.asnumpy(), value, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(data.grad.asnumpy(), 3 * slope, rtol=1e-6)
    executor = mx.sym.smooth_l1(mx.sym.Variable("data"), scalar=sigma).simple_bind(mx.cpu(), data=x.shape)
    executor.forward(is_train=True, data=data)
    executor.backward(mx.nd.ones(x.shape))
    np.testing.assert_allclose(executor.outputs[0].asnumpy(), value, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(executor.grad_dict["data"].asnumpy(), slope, rtol=1e-6)


def test_quadratic_is_bound_by_the_name_of_its_own_variable() -> None:
    with mx.name.NameManager():
        quad = mx.sym.contrib.quadratic(**COEFFICIENTS)
    assert quad.list_arguments() == ["quadratic0_data"]
    executor = quad.simple_bind(ctx=mx.cpu(), quadratic0_data=(1,))
    executor.forward(is_train=True, quadratic0_data=mx.nd.array([2]))
    executor.backward(mx.nd.ones((1,)))
    assert executor.outputs[0].asnumpy().tolist() == [2.5]
    assert executor.grad_dict["quadratic0_data"].asnumpy().tolist() == [4]


@pytest.mark.parametrize("ndim", range(1, 6))
def test_quadratic_in_any_number_of_dimensions(ndim: int) -> None:
    source = np.random.default_rng(ndim)
    shape = tuple(source.integers(1, 5, ndim).tolist())
    x = source.normal(size=shape).astype(np.float32)
    a, b, c = COEFFICIENTS.values()
    quad = mx.sym.contrib.quadratic(data=mx.sym.Variable("data"), **COEFFICIENTS)
    executor = quad.simple_bind(mx.cpu(), data=shape)
    executor.forward(is_train=True, data=mx.nd.array(x))
    executor.backward(mx.nd.ones(shape))
    np.testing.assert_allclose(executor.outputs[0].asnumpy(), a * x * x + b * x + c, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(executor.grad_dict["data"].asnumpy(), 2 * a * x + b, rtol=1e-5, atol=1e-6)
    found = mx.nd.contrib.quadratic(mx.nd.array(x), **COEFFICIENTS)
    np.testing.assert_array_equal(found.asnumpy(), executor.outputs[0].asnumpy())


def test_shapes_are_inferred_mutually() -> None:
    a, b, c = (mx.sym.Variable(name) for name in "abc")
    net = a * b + b * c
    arguments, outputs, states = net.infer_shape(a=(2, 0), c=(0, 3))
    assert dict(zip(net.list_arguments(), arguments, strict=True)) == dict.fromkeys("abc", (2, 3))
    assert outputs == [(2, 3)] and states == []


def test_a_network_trained_by_mxnet_predicts_the_same() -> None:
    truth = np.load(DATA / "lenet_truth.npz")
    batches = mx.io.NDArrayIter(truth["data"], truth["label"], batch_size=16, label_name="softmax_label")
    module = mx.mod.Module.load(str(DATA / "lenet"), 3)
    module.bind(batches.provide_data, batches.provide_label, for_training=False)
    np.testing.assert_allclose(module.predict(batches).asnumpy(), truth["pred"], rtol=0, atol=1e-5)
    (_, accuracy), *_ = module.score(batches, "acc")
    assert accuracy == (truth["pred"].argmax(1) == truth["label"]).mean()
