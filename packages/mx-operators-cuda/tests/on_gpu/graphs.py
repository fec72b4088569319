# SPDX-License-Identifier: Apache-2.0
"""Graphs and trainers on a GPU, real or fake, against the same on the CPU; see `plans.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import cpu, gpu, num_gpus
from mx_ndarray import nd
from mx_symbol import sym

GPUS = range(min(num_gpus(), 2))


def run(ctx: Any) -> list[np.ndarray]:
    """Outputs, gradients and updated weights after three steps."""
    x, w, b = (sym.Variable(name) for name in "xwb")
    y = sym.Activation(sym.FullyConnected(x, w, b, num_hidden=4), act_type="tanh")
    executor = sym.sum(y * y, axis=1).simple_bind(ctx=ctx, x=(3, 5))
    rng = np.random.default_rng(0)
    for array in executor.arg_dict.values():
        array[:] = rng.normal(size=array.shape)
    moments = {name: nd.zeros(a.shape, ctx=ctx) for name, a in executor.arg_dict.items()}
    for _ in range(3):
        (out,) = executor.forward(is_train=True)
        executor.backward([nd.ones((3,), ctx=ctx)])
        for name, weight in executor.arg_dict.items():
            nd.sgd_mom_update(
                weight, executor.grad_dict[name], moments[name], lr=0.05, momentum=0.9, out=weight
            )
    assert out.context == ctx
    return [a.asnumpy() for a in (out, *executor.grad_dict.values(), *executor.arg_dict.values())]


@pytest.mark.parametrize("number", GPUS)
def test_a_graph_that_is_trained(number: int) -> None:
    for found, wanted in zip(run(gpu(number)), run(cpu()), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
