# SPDX-License-Identifier: Apache-2.0
"""Blocks and trainers look again at parameters whose arrays were replaced between two steps."""

import copy
import pickle
import threading
import weakref

import numpy as np
import pytest

from mx_core.context import Context, cpu
from mx_gluon import Parameter, Trainer, loss, nn
from mx_gluon.block import HybridBlock
from mx_gluon.parameter import collected
from mx_ndarray import autograd, nd

OTHER = Context("cpu", 1)


def dense(hybrid):
    net = nn.Dense(2, in_units=3, weight_initializer="ones")
    net.initialize()
    if hybrid:
        net.hybridize()
    return net


def gradient(net, x):
    """Of the weight, after a step."""
    with autograd.record():
        total = net(x).sum()
    total.backward()
    return net.weight.grad(x.context).asnumpy()


@pytest.fixture(params=[False, True], ids=["imperative", "hybrid"])
def hybrid(request):
    return request.param


def test_initialised_again(hybrid):
    net, x = dense(hybrid), nd.ones((1, 3))
    assert net(x).asnumpy().tolist() == [[3, 3]]
    net.weight.initialize("zeros", force_reinit=True)
    assert net(x).asnumpy().tolist() == [[0, 0]]


def test_moved_to_another_context(hybrid):
    net = dense(hybrid)
    assert net(nd.ones((1, 3))).context == cpu()
    net.collect_params().reset_ctx(OTHER)
    y = net(nd.ones((1, 3), ctx=OTHER))
    assert y.context == OTHER
    assert y.asnumpy().tolist() == [[3, 3]]
    net.collect_params().reset_ctx([cpu(), OTHER])
    for ctx in (cpu(), OTHER, cpu()):
        assert net(nd.ones((1, 3), ctx=ctx)).context == ctx


def test_cast(hybrid):
    net = dense(hybrid)
    assert net(nd.ones((1, 3))).dtype == np.float32
    net.cast("float64")
    assert net(nd.ones((1, 3), dtype="float64")).dtype == np.float64
    assert gradient(net, nd.ones((1, 3), dtype="float64")).tolist() == [[1] * 3] * 2


def test_a_request_that_changes(hybrid):
    net, x = dense(hybrid), nd.ones((1, 3))
    assert gradient(net, x)[0, 0] == 1
    net.weight.grad_req = "add"
    assert [gradient(net, x)[0, 0] for _ in range(3)] == [1, 2, 3]
    net.weight.grad_req = "null"
    with autograd.record():
        total = net(x).sum()
    total.backward()
    net.weight.grad_req = "write"
    assert [gradient(net, x)[0, 0] for _ in range(2)] == [1, 1]


def test_a_parameter_that_a_block_gets_later():
    class Scaled(HybridBlock):
        def hybrid_forward(self, F, x, factor=None):
            return x if factor is None else F.broadcast_mul(x, factor)

    net = Scaled()
    assert net(nd.ones((1,))).asnumpy() == [1]
    made = Parameter("late", shape=(1,), init="ones")
    made.initialize("zeros")
    assert net(nd.ones((1,))).asnumpy() == [1]
    net.factor = made
    assert net(nd.ones((1,))).asnumpy() == [0]


def test_a_trainer_steps_the_arrays_that_are_there(hybrid):
    net, x = dense(hybrid), nd.ones((1, 3))
    trainer = Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0}, kvstore=None)
    net.bias.grad_req = "null"

    def step():
        gradient(net, x)
        trainer.step(1)
        return net.weight.data().asnumpy()[0, 0], net.bias.data().asnumpy()[0]

    assert step() == (0, 0)
    net.weight.initialize("ones", force_reinit=True)
    net.weight.set_data(nd.ones((2, 3)) * 5)
    assert step() == (4, 0)
    net.bias.grad_req = "write"
    assert step() == (3, -1)
    net.weight.grad_req = "null"
    net.weight.grad_req = "write"
    assert step() == (2, -2)


def test_arrays_that_were_replaced_are_let_go(hybrid):
    """Neither a block nor a trainer that is not used again keeps values or gradients alive."""
    net, x = dense(False), nd.ones((1, 3))
    trainer = Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0}, kvstore=None)
    for _ in range(2):
        gradient(net, x)  # the first time as operators
        trainer.step(1)
        net.hybridize(hybrid)
    for replace in (
        lambda: net.cast("float64"),
        lambda: setattr(net.weight, "grad_req", "null"),
        lambda: net.collect_params().reset_ctx(OTHER),
    ):
        arrays = weakref.ref(net.weight.data())
        replace()
        assert arrays() is None


def test_two_contexts_in_turns_collect_nothing():
    net = dense(False)
    net.collect_params().reset_ctx([cpu(), OTHER])
    net(nd.ones((1, 3)))
    before = len(list(collected.present()))
    for _ in range(100):
        for ctx in (cpu(), OTHER):
            net(nd.ones((1, 3), ctx=ctx))
    assert len(list(collected.present())) == before


def test_copies_collect_their_own(hybrid):
    net, x = dense(hybrid), nd.ones((1, 3))
    assert net(x).asnumpy().tolist() == [[3, 3]]
    for copied in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        copied.weight.set_data(nd.zeros((2, 3)))
        assert copied(x).asnumpy().tolist() == [[0, 0]]
        assert net(x).asnumpy().tolist() == [[3, 3]]


def test_outputs_of_earlier_steps_stay(hybrid):
    """Also while later steps run, whose memory may be that of earlier ones."""
    net, difference = dense(hybrid), loss.L2Loss()
    trainer = Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01}, kvstore=None)
    if hybrid:
        difference.hybridize()
    kept, expected = [], []
    for i in range(30):
        x, y = nd.full((2, 3), i % 5), nd.full((2, 2), 1.0)
        with autograd.record():
            made = net(x)
            value = difference(made, y)
        value.backward()
        trainer.step(2)
        kept.append((made, value))
        if i % 2:
            nd.waitall()
        expected.append([each.asnumpy() for each in (made, value)] if i % 3 else None)
    for arrays, before in zip(kept, expected, strict=True):
        for array, values in zip(arrays, before or (), strict=False):
            np.testing.assert_array_equal(array.asnumpy(), values)
    losses = [value.asnumpy().mean() for _, value in kept]
    assert losses[26] < losses[1]


def test_threads_call_one_block_that_learns():
    net = nn.HybridSequential()
    net.add(nn.Dense(8, activation="tanh", in_units=4), nn.Dense(3, in_units=8))
    net.initialize("xavier")
    inputs = [nd.random.uniform(shape=(5, 4)) for _ in range(4)]
    expected = [net(x).asnumpy() for x in inputs]
    net.hybridize()
    wrong = []

    def work(x, y):
        for _ in range(60):
            with autograd.record():
                made = net(x)
                square = (made * made).sum()
            if not np.allclose(made.asnumpy(), y, rtol=1e-5, atol=1e-6):
                wrong.append(made.asnumpy())
            if not np.allclose(square.asnumpy(), (y * y).sum(), rtol=1e-4):
                wrong.append(square)

    threads = [threading.Thread(target=work, args=each) for each in zip(inputs, expected, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
