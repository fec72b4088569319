# SPDX-License-Identifier: Apache-2.0
"""Parameter stores of GPUs, real or fake: `device` by copies between them, `nccl` by NCCL; see `plans.py`."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import mx_kvstore
from mx_core import cpu, gpu, num_gpus
from mx_core.errors import MXNetError
from mx_core.testing import KVStoreContract
from mx_ndarray import nd, waitall
from mx_operators_cuda import _native, nccl

#: on a real machine with one GPU, that one
GPUS = [gpu(i) for i in range(min(num_gpus(), 2))]
STORES = pytest.mark.parametrize("kind", ["device", "nccl"])
X = np.random.default_rng(3).normal(size=(5, 3)).astype(np.float32)


class TestDevice(KVStoreContract):
    def make_store(self) -> Any:
        return mx_kvstore.create("device")

    def array(self, values: np.ndarray[Any, Any]) -> Any:
        return nd.array(values, dtype=values.dtype, ctx=gpu(0))


class TestNccl(TestDevice):
    def make_store(self) -> Any:
        return mx_kvstore.create("nccl")


def of_all(*values: Any, dtype: Any = "float32") -> list[Any]:
    """An array on each GPU."""
    return [nd.array(v, ctx=ctx, dtype=dtype) for v, ctx in zip(values, GPUS, strict=False)]


def shares(x: Any) -> list[Any]:
    return of_all(x, 2 * x)


@STORES
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int8"])
def test_sums_over_gpus(kind: str, dtype: str) -> None:
    store, x = mx_kvstore.create(kind), np.arange(15).reshape(5, 3)
    store.init("w", nd.zeros(x.shape, ctx=GPUS[0], dtype=dtype))
    outs = of_all(x * 0, x * 0, dtype=dtype)
    for step in range(3):
        given = of_all(x + step, 2 * x, dtype=dtype)
        store.push("w", given)
        for array in given:  # the sums were read before
            array *= 0
        store.pull("w", out=outs)
        wanted = x + step + (2 * x if len(GPUS) > 1 else 0)
        for out in outs:
            np.testing.assert_array_equal(out.asnumpy(), wanted)


@STORES
def test_updates_and_sums_take_turns(kind: str) -> None:
    store = mx_kvstore.create(kind)
    store.set_updater(lambda key, grad, weight: weight.__isub__(grad * 0.5))
    keys = list(range(6))
    store.init(keys, [nd.array(X + key, ctx=GPUS[0]) for key in keys])
    outs = [shares(X) for _ in keys]
    total = 3 if len(GPUS) > 1 else 1
    for _ in range(4):
        store.pushpull(keys, [shares(X * key) for key in keys], out=outs)
    for key in keys:
        for out in outs[key]:
            np.testing.assert_allclose(out.asnumpy(), X + key - 4 * 0.5 * total * key * X, rtol=1e-5)


@STORES
def test_arrays_that_nccl_does_not_serve_are_copied(kind: str) -> None:
    store = mx_kvstore.create(kind)
    store.init("w", nd.zeros(X.shape, ctx=GPUS[0]))
    store.push("w", [nd.array(X, ctx=GPUS[-1]), nd.array(X, ctx=GPUS[-1])])
    outs = [nd.zeros(X.shape, ctx=cpu()), *of_all(X * 0, X * 0)]
    store.pull("w", out=outs)
    for out in outs:
        np.testing.assert_allclose(out.asnumpy(), 2 * X, rtol=1e-6)


def test_a_store_of_nccl_says_its_name() -> None:
    store = mx_kvstore.create("nccl")
    assert store.type == "nccl" and (store.rank, store.num_workers) == (0, 1)
    assert _native.nccl_version() >= 21800
    with pytest.raises(MXNetError, match="not supported for kvstore 'nccl'"):
        store.set_gradient_compression({"type": "2bit"})


def test_nccl_is_used_where_it_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[tuple[bool, bool]] = []
    push = nccl.Collectives._push

    def counted(self: Any, reduces: bool, *arguments: Any) -> bool:
        served.append((reduces, push(self, reduces, *arguments)))
        return served[-1][1]

    monkeypatch.setattr(nccl.Collectives, "_push", counted)
    store = mx_kvstore.create("nccl")
    store.init("w", nd.zeros(X.shape, ctx=GPUS[0]))
    store.pushpull("w", shares(X), out=shares(X))
    several = len(GPUS) > 1
    assert served == ([(True, True)] if several else []) + [(False, several)]
    waitall()


@pytest.mark.skipif("FAKE_NVRTC_FOLDER" not in os.environ, reason="NCCL of the tests says how long it takes")
def test_who_pushes_does_not_wait_until_nccl_is_set_up() -> None:
    """In a process of its own: NCCL is set up once."""
    program = """
import time
from mx_core import gpu
from mx_ndarray import nd
import mx_kvstore
store, outs = mx_kvstore.create("nccl"), [nd.zeros((3,), ctx=gpu(i)) for i in range(2)]
store.init("w", nd.zeros((3,), ctx=gpu(0)))
given = [nd.ones((3,), ctx=gpu(i)) for i in range(2)]
for array in (*given, *outs):
    array.wait_to_read()
begin = time.monotonic()
store.pushpull("w", given, out=outs)
pushed = time.monotonic() - begin
assert outs[1].asnumpy().tolist() == [2, 2, 2]
assert pushed < 2 < time.monotonic() - begin, pushed
"""
    environment = {**os.environ, "FAKE_NCCL_INIT_SECONDS": "3"}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)


@pytest.mark.skipif(
    "FAKE_NVRTC_FOLDER" not in os.environ, reason="memory that is not there fails on the fake driver only"
)
def test_a_failure_is_that_of_what_is_written() -> None:
    if len(GPUS) < 2:
        pytest.skip("NCCL works between GPUs")
    store = mx_kvstore.create("nccl")
    bad = [nd.empty((1 << 26,), ctx=ctx) for ctx in GPUS]  # 256 MB on a machine with less
    store.init("w", nd.empty((1 << 26,), ctx=GPUS[0]))
    store.push("w", bad)
    out = nd.empty((1 << 26,), ctx=GPUS[0])
    store.pull("w", out=out)
    with pytest.raises(MXNetError, match="cannot allocate"):
        out.wait_to_read()
