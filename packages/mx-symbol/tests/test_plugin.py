# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from mx_core.context import cpu
from mx_ndarray import autograd, nd
from mx_symbol import Symbol


def test_what_was_recorded_becomes_a_symbol() -> None:
    x, weight, offset = nd.array([[1, -2, 3]]), nd.ones((4, 3)), nd.ones((1, 3))
    x.attach_grad()
    with autograd.record():
        y = nd.FullyConnected(nd.relu(x + offset), weight, num_hidden=4, no_bias=True) * 2
    symbol = autograd.get_symbol(y)
    assert isinstance(symbol, Symbol)
    assert symbol.list_arguments() == ["var0", "null1", "null2"]
    executor = symbol.bind(cpu(), {"var0": x, "null1": offset, "null2": weight})
    np.testing.assert_array_equal(executor.forward()[0].asnumpy(), y.asnumpy())
