# SPDX-License-Identifier: Apache-2.0
"""Products with what follows them in one pass, by cuBLASLt, real or the stand-in, and without it; see `plans.py`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mx_core import cpu, gpu
from mx_ndarray import nd
from mx_operators_cuda import blas
from mx_symbol import sym
from testkit.device_memory import GpuBench
from testkit.gpu_kernels import compare

LOG = os.environ.get("FAKE_CUBLASLT_LOG")
RELU, BIAS = 2, 4


def told() -> list[int]:
    """Epilogues that the stand-in has computed since it was last asked."""
    path = Path(LOG or "")
    lines = path.read_text().splitlines() if LOG and path.exists() else []
    if LOG:
        path.unlink(missing_ok=True)
    return [int(line.split()[0]) for line in lines]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_a_bias_is_added_by_the_product(dtype: str) -> None:
    bench = GpuBench()
    told()
    for params, shape in (({"num_hidden": 8}, (4, 3, 5)), ({"num_hidden": 6, "flatten": False}, (2, 4, 5))):
        compare(bench, "FullyConnected", params, [shape], dtype)
    compare(bench, "FullyConnected", {"num_hidden": 6, "no_bias": True}, [(4, 5)], dtype)
    wanted = [BIAS] * 4 if LOG and dtype != "float64" else []  # written and added to, twice
    assert told() == wanted


def test_addresses_that_are_no_multiples_of_16_take_other_kernels() -> None:
    x, weight, bias = (np.random.default_rng(1).normal(size=s).astype("f") for s in ((5, 8), (6, 8), (7,)))
    told()
    given = [nd.array(a, ctx=gpu(0)) for a in (x, weight, bias)]
    found = nd.FullyConnected(given[0], given[1], given[2][1:], num_hidden=6).asnumpy()
    np.testing.assert_allclose(found, x @ weight.T + bias[1:], rtol=1e-5, atol=1e-5)
    assert told() == []


def network(kind: str) -> Any:
    x = sym.FullyConnected(sym.Variable("data"), num_hidden=8, name="fc", no_bias=kind == "relu without bias")
    if kind.startswith("relu"):
        return sym.Activation(x, act_type="relu")
    if kind == "residual":
        return sym.Activation(x + sym.Variable("other"), act_type="relu")
    if kind in ("gelu", "leaky"):
        return sym.LeakyReLU(x, act_type=kind, slope=0.2)
    return sym.Activation(x, act_type=kind)


@pytest.mark.parametrize(
    ("kind", "epilogues"),
    [("relu", [BIAS | RELU]), ("relu without bias", [RELU]), *((k, []) for k in ("residual", "gelu", "leaky", "tanh"))],
)  # fmt: skip
def test_activations_of_inference_are_part_of_the_layer(kind: str, epilogues: list[int]) -> None:
    found = []
    for ctx in (cpu(), gpu(0)):
        told()
        more = {"other": (5, 8)} if kind == "residual" else {}
        executor = network(kind).simple_bind(ctx, grad_req="null", data=(5, 7), **more)
        rng = np.random.default_rng(2)
        for array in executor.arg_dict.values():
            array[:] = rng.normal(size=array.shape)
        found.append(executor.forward(is_train=False)[0].asnumpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-5)
    assert told() == (epilogues if LOG else [])


def test_cublaslt_is_there_unless_it_is_switched_off() -> None:
    assert blas.has_epilogues() == (os.environ.get("MX_CUBLASLT") != blas.OFF)
