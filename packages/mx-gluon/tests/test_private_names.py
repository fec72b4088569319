# SPDX-License-Identifier: Apache-2.0
"""What programs take of Gluon though its name begins with an underscore."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

from mx_gluon import Trainer, loss, nn
from mx_gluon.errors import RefusedError
from mx_ndarray import autograd, nd
from mx_train import optimizer


class Squared(loss.Loss):
    def hybrid_forward(self, F, pred, label, sample_weight=None):
        error = F.square(loss._reshape_like(F, label, pred) - pred)
        return F.mean(loss._apply_weighting(F, error, self._weight, sample_weight), axis=0, exclude=True)


@pytest.mark.parametrize("hybridised", [False, True])
def test_losses_of_programs_weigh_as_ours(hybridised: bool) -> None:
    pred, label, weights = nd.array([[1.0], [4.0]]), nd.array([3.0, 2.0]), nd.array([[1.0], [0.5]])
    made = Squared(0.5, 0)
    if hybridised:
        made.hybridize()
    np.testing.assert_allclose(made(pred, label, weights).asnumpy(), [2, 1])
    with pytest.raises(RefusedError, match="expected a number, got 'much'"):
        loss._apply_weighting(nd, pred, "much")


def step_by_parts(trainer: Trainer, size: int) -> None:
    trainer._optimizer.rescale_grad = trainer._scale / size
    trainer._init_kvstore()
    trainer._allreduce_grads()
    trainer._update()


@pytest.mark.parametrize("store", [None, "local"])
def test_a_step_by_its_parts_is_a_step(store: str | None) -> None:
    weights = []
    for by_parts in (False, True):
        net = nn.Dense(2, in_units=3)
        net.initialize("ones")
        trainer = Trainer(
            net.collect_params(), "sgd", {"learning_rate": 0.1}, kvstore=store, update_on_kvstore=False
        )
        for _ in range(3):
            with autograd.record():
                error = (net(nd.array([[1.0, 2.0, 3.0]])) ** 2).sum()
            error.backward()
            step_by_parts(trainer, 2) if by_parts else trainer.step(2)
        weights.append(net.weight.data().asnumpy())
    np.testing.assert_array_equal(*weights)


def test_a_step_calls_what_a_class_of_a_program_overrides() -> None:
    class Clipping(Trainer):
        def _update(self, ignore_stale_grad=False):
            for param in self._params:
                nd.clip(param.grad(), -0.5, 0.5, out=param.grad())
            super()._update(ignore_stale_grad)

    net = nn.Dense(1, in_units=2, use_bias=False)
    net.initialize("ones")
    trainer = Clipping(net.collect_params(), "sgd", {"learning_rate": 1.0})
    for step in (trainer.step, trainer.update):
        with autograd.record():
            net(nd.array([[2.0, 0.25]])).backward()
        step(1)
    np.testing.assert_array_equal(net.weight.data().asnumpy(), [[0, 0.5]])
    trainer.step(1, ignore_stale_grad=True)


def test_the_scale_of_a_file_of_states_is_no_difference(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A Trainer sets it at each step; MXNet's files have that of the last one."""
    updater = optimizer.get_updater(optimizer.SGD(learning_rate=0.1, momentum=0.9, rescale_grad=0.25))
    for index, shape in enumerate(((2,), (2, 3))):  # the bias comes first
        updater(index, nd.ones(shape), nd.zeros(shape))
    (tmp_path / "t.states").write_bytes(updater.get_states(dump_optimizer=True))
    net = nn.Dense(2, in_units=3)
    net.initialize()
    for momentum, said in ((0.9, []), (0.5, ["momentum 0.9 in the file, 0.5 here"])):
        caplog.clear()
        trainer = Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": momentum})
        with caplog.at_level(logging.WARNING):
            trainer.load_states(tmp_path / "t.states")
        assert [record.message.rpartition(": ")[2] for record in caplog.records] == said
