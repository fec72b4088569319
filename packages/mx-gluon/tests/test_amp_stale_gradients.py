# SPDX-License-Identifier: Apache-2.0
"""Mixed precision: only gradients that a step uses decide whether it is left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mx_core import cpu
from mx_gluon import Trainer, amp, nn
from mx_ndarray import autograd, nd
from mx_symbol import amp as graphs
from mx_symbol import passes
from mx_symbol.passes import cast_rules
from mx_train import initializer


@pytest.fixture(autouse=True)
def off() -> Iterator[None]:
    """Mixed precision ends with the test."""
    yield
    passes.always("amp", False)
    cast_rules.use(cast_rules.Lists())


@pytest.mark.parametrize("in_store", [None, False, True])
def test_an_infinite_gradient_of_a_former_step_stops_no_other_one(in_store: bool | None) -> None:
    graphs.init("float16")
    contexts = [cpu(0)] if in_store is None else [cpu(0), cpu(1)]
    one, other = nets = [nn.Dense(1, use_bias=False, in_units=1) for _ in range(2)]
    for net in nets:
        net.initialize(initializer.One(), ctx=contexts)
    trainer: Any = Trainer(
        [net.weight for net in nets], "sgd", {"learning_rate": 2}, update_on_kvstore=in_store
    )
    amp.init_trainer(trainer)

    def step(net: nn.Dense, factor: float) -> list[float]:
        with autograd.record():
            values = [net(nd.ones((1, 1), ctx=ctx)) * factor for ctx in contexts]
            with amp.scale_loss(values, trainer) as scaled:
                autograd.backward(scaled)
        trainer.step(len(contexts), ignore_stale_grad=True)
        return [float(each.weight.data(contexts[-1]).asscalar()) for each in nets]

    # A factor of 1 would be a gradient of 65536, which float16 does not have.
    assert step(other, float("inf")) == [1, 1], "the step is left out"
    assert step(one, 0.25) == [0.5, 1], "the other parameter's gradient is not used"
    assert step(one, float("nan")) == [0.5, 1]
    assert step(other, 0.25) == [0.5, 0.5]
    assert trainer._amp_loss_scaler._unskipped == 1
