# SPDX-License-Identifier: Apache-2.0
"""Modules that are bound to another module's parameters take its optimizer, as modules of many shapes need it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from mx_core.errors import MXNetError
from mx_io.io import DataBatch
from mx_ndarray import nd
from mx_symbol import sym
from mx_train.module import Module


def module(size: int, lender: Module | None = None, fixed: Sequence[str] = ()) -> Module:
    x = sym.FullyConnected(sym.mean(sym.Variable("data"), axis=(2, 3)), num_hidden=3, name="fc")
    symbol = sym.SoftmaxOutput(x, sym.Variable("label"), name="softmax")
    made = Module(symbol, label_names=["label"], fixed_param_names=fixed)
    made.bind([("data", (2, 3, size, size))], [("label", (2,))], shared_module=lender)
    return made


def step(made: Module, size: int) -> None:
    x = nd.array(np.random.default_rng(size).uniform(size=(2, 3, size, size)))
    made.forward_backward(DataBatch([x], [nd.array([0, 1])]))
    made.update()


def test_it_steps_with_the_lenders_optimizer_and_states() -> None:
    weights = []
    for shared in (True, False):
        first = module(8)
        first.init_params(arg_params={"fc_weight": nd.ones((3, 3)), "fc_bias": nd.zeros((3,))})
        first.init_optimizer(optimizer_params={"learning_rate": 0.5, "momentum": 0.9})
        step(first, 8)
        if shared:
            other = module(4, first)
            assert other.params_initialized and other.optimizer_initialized
            assert other._optimization is first._optimization
        else:
            other = first
            other.reshape([("data", (2, 3, 4, 4))], [("label", (2,))])
        step(other, 4)
        weights.append(other.get_params()[0]["fc_weight"].asnumpy())
    np.testing.assert_array_equal(*weights)


def test_an_optimizer_that_does_not_know_all_parameters_stays_where_it_is() -> None:
    first = module(8, fixed=["fc_bias"])
    first.init_params()
    assert not module(4, first).optimizer_initialized
    first.init_optimizer()
    other = module(4, first)
    assert other.params_initialized and not other.optimizer_initialized
    with pytest.raises(MXNetError, match="call init_optimizer first"):
        other.update()
    assert module(4, first, fixed=["fc_bias"]).optimizer_initialized
