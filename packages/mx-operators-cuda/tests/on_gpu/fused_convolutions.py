# SPDX-License-Identifier: Apache-2.0
"""Convolutions with what follows them as one graph of cuDNN, real or the stand-in; see `plans.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mx_core import cpu, gpu
from mx_operators_cuda import cudnn
from mx_symbol import sym
from testkit.fake_cudnn_log import LOG, REFUSED, told

pytestmark = pytest.mark.skipif(not cudnn.installed(), reason="cuDNN is not installed")


def followed() -> list[str]:
    """What followed the result of each graph that the stand-in has run; extents are left out."""
    return [" ".join(word.split("=")[0] for word in line.split()[5:]) for line in told()]


def network(kind: str) -> Any:
    more = {"no_bias": "without bias" in kind, "layout": "NHWC" if "last" in kind else "NCHW"}
    x = sym.Convolution(sym.Variable("data"), kernel=(3, 3), num_filter=4, pad=(1, 1), name="conv", **more)
    if "norm" in kind:
        x = sym.BatchNorm(x, fix_gamma=False, name="bn")
    if "sum" in kind:
        x = x + sym.Variable("other")
    if "leaky" in kind:
        return sym.LeakyReLU(x, act_type="leaky", slope=0.2)
    return sym.Activation(x, act_type="relu") if "relu" in kind else x


CASES = {
    "relu": "bias relu", "relu, without bias": "relu", "relu, channels last": "bias relu", "sum": "bias residual",
    "sum, relu": "bias residual relu", "sum, relu, without bias": "residual relu", "norm, relu": "bias relu",
    "norm, sum, relu": "bias residual relu", "leaky": "bias",
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(CASES))
def test_what_follows_in_inference_is_part_of_the_layer(kind: str) -> None:
    """A batch norm is folded into the weights first; other activations stay apart."""
    found = []
    for ctx in (cpu(), gpu(0)):
        if LOG is not None:
            told()
        shape = (2, 5, 6, 3) if "last" in kind else (2, 3, 5, 6)
        more = {"other": (2, 4, 5, 6)} if "sum" in kind else {}
        executor = network(kind).simple_bind(ctx, grad_req="null", data=shape, **more)
        rng = np.random.default_rng(2)
        for array in (*executor.arg_dict.values(), *executor.aux_dict.values()):
            array[:] = rng.uniform(0.1, 1, size=array.shape) * rng.choice([-1, 1] if array.ndim > 1 else [1])
        found.append(executor.forward(is_train=False)[0].asnumpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-5)
    if LOG is not None:
        # what cuDNN declines as one is the layer by cuDNN, and kernels of ours
        whole = CASES[kind] if not REFUSED else ("bias" if "bias" in CASES[kind] else "")
        assert followed() == [whole]
