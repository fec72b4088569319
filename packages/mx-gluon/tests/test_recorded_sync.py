# SPDX-License-Identifier: Apache-2.0
"""SyncBatchNorm on several contexts: as MXNet 1.9.1 computes it, and what happens when a context does not come."""

from __future__ import annotations

import copy
import gc
import json
import pickle
import threading
from typing import Any

import numpy as np
import pytest

from mx_core import cpu
from mx_core.errors import MXNetError
from mx_gluon import nn
from mx_gluon.contrib.nn import SyncBatchNorm
from mx_ndarray import autograd, nd
from mx_symbol import sym
from testkit.oracle import ORACLE

pytestmark = pytest.mark.timeout(60)
RECORDED = json.loads((ORACLE / "gluon" / "sync.json").read_text())


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MX_SYNC_TIMEOUT", "20")


def close(got: Any, expected: Any) -> None:
    np.testing.assert_allclose(got.asnumpy(), expected, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("hybridized", [False, True], ids=["imperative", "hybridized"])
@pytest.mark.parametrize("number", range(len(RECORDED)))
def test_values_gradients_and_averages(number: int, hybridized: bool) -> None:
    case = RECORDED[number]
    contexts = [cpu(i) for i in range(case["count"])]
    net = SyncBatchNorm(num_devices=case["count"], prefix=f"t{number}_{hybridized}_", **case["arguments"])
    net.initialize(ctx=contexts)
    if hybridized:
        net.hybridize()
    net(nd.zeros(np.shape(case["x"][0][0])))
    for name in ("gamma", "beta"):
        getattr(net, name).set_data(nd.array(case[name]))
    for step, data in enumerate(case["x"]):
        x = [nd.array(each, ctx=ctx) for each, ctx in zip(data, contexts, strict=True)]
        heads = [nd.array(each, ctx=ctx) for each, ctx in zip(case["head"][step], contexts, strict=True)]
        for each in x:
            each.attach_grad()
        with autograd.record():
            out = [net(each) for each in x]
        autograd.backward(out, heads)
        for i, each in enumerate(x):
            close(out[i], case["out"][step][i])
            close(each.grad, case["grad"][step][i])
    for i, each in enumerate(x):
        close(net(each), case["predicted"][i])
    for name in ("gamma", "beta"):
        for ctx, expected in zip(contexts, case.get(name + "_grad", ()), strict=False):
            close(getattr(net, name).grad(ctx), expected)
    for name in ("running_mean", "running_var"):
        for ctx, expected in zip(contexts, case[name], strict=True):
            close(getattr(net, name).data(ctx), expected)


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-5), ("float64", 1e-10)])
def test_batches_of_different_sizes_are_one_batch(dtype: str, tolerance: float) -> None:
    """A network on three contexts, hybridised, is the same network with BatchNorm and the whole batch."""
    rng, contexts = np.random.default_rng(3), [cpu(i) for i in range(3)]
    batch, sizes = rng.normal(size=(9, 4, 5, 5)).astype(dtype), [4, 3, 2]

    def made(norm: Any, where: Any) -> Any:
        net = nn.HybridSequential(prefix=f"n_{dtype}_")
        with net.name_scope():
            for _ in range(2):
                net.add(nn.Conv2D(4, 3, padding=1, use_bias=False), norm(), nn.Activation("tanh"))
        net.initialize("zeros", ctx=where)
        net.cast(dtype)
        net.hybridize()
        net(nd.zeros((1, 4, 5, 5), dtype=dtype, ctx=where[0]))
        draws = np.random.default_rng(4)
        for name, param in net.collect_params().items():
            if not name.endswith(("running_mean", "running_var")):
                param.set_data(nd.array(draws.normal(size=param.shape), dtype=dtype))
        return net

    def trained(net: Any, where: Any, parts: list[Any]) -> Any:
        x = [nd.array(part, ctx=ctx, dtype=dtype) for part, ctx in zip(parts, where, strict=True)]
        for each in x:
            each.attach_grad()
        with autograd.record():
            losses = [(net(each) ** 3).sum() for each in x]
        autograd.backward(losses)
        grads = [
            sum(grad.asnumpy() for grad in param.list_grad())
            for param in net.collect_params().values()
            if param.grad_req != "null"
        ]
        states = [p.list_data()[-1].asnumpy() for p in net.collect_params().values() if p.grad_req == "null"]
        return np.concatenate([each.grad.asnumpy() for each in x]), grads, states

    whole = trained(made(lambda: nn.BatchNorm(), [cpu()]), [cpu()], [batch])
    synced = made(lambda: SyncBatchNorm(num_devices=3), contexts)
    joined = trained(synced, contexts, np.split(batch, np.cumsum(sizes)[:-1]))
    for one, other in zip((whole[0], *whole[1], *whole[2]), (joined[0], *joined[1], *joined[2]), strict=True):
        np.testing.assert_allclose(one, other, rtol=100 * tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("shape", [(6, 3, 4), (6, 3, 2, 2)])
def test_bfloat16(shape: tuple[int, ...]) -> None:
    """The halves of a batch on two contexts are the batch on one."""
    rng, name = np.random.default_rng(5), f"short{len(shape)}"
    data, head = rng.normal(size=(2, *shape)).astype("float32")
    vectors = [*rng.uniform(0.5, 1.5, (2, 3)), np.zeros(3), np.ones(3)]

    def computed(contexts: list[Any]) -> list[Any]:
        parts = [np.split(each, len(contexts)) for each in (data, head)]
        x, heads = (
            [nd.array(part, ctx=ctx, dtype="bfloat16") for part, ctx in zip(each, contexts, strict=True)]
            for each in parts
        )
        for each in x:
            each.attach_grad()
        with autograd.record():
            out = [
                nd.contrib.SyncBatchNorm(
                    each,
                    *(nd.array(v, ctx=ctx) for v in vectors),
                    key=name,
                    ndev=len(contexts),
                    fix_gamma=False,
                )
                for each, ctx in zip(x, contexts, strict=True)
            ]
        autograd.backward(out, heads)
        joined = (*out, *(each.grad for each in x))
        return [each.astype("float32").asnumpy() for each in joined]

    whole, halves = computed([cpu()]), computed([cpu(0), cpu(1)])
    for one, *other in ((whole[0], *halves[:2]), (whole[1], *halves[2:])):
        np.testing.assert_allclose(np.concatenate(other), one, rtol=0.02, atol=0.02)


def test_a_context_that_does_not_come_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MX_SYNC_TIMEOUT", "0.2")
    net = SyncBatchNorm(in_channels=2, num_devices=2, prefix="late_")
    net.initialize(ctx=[cpu(0), cpu(1)])
    x = [nd.ones((3, 2), ctx=cpu(i)) for i in range(2)]
    with autograd.record():
        out = net(x[0])
    with pytest.raises(
        MXNetError, match=r"key 'late_', forward\] 1 of 2 devices came within MX_SYNC_TIMEOUT: cpu\(0\)"
    ):
        out.wait_to_read()
    monkeypatch.setenv("MX_SYNC_TIMEOUT", "20")
    with autograd.record():
        out = [net(each) for each in x]
    for each in out:
        close(each, np.zeros((3, 2)))


def test_contexts_may_differ_in_how_many_channels_only_by_mistake() -> None:
    arguments = {"key": "channels", "ndev": 2, "fix_gamma": False}
    with autograd.record():
        out = [
            nd.contrib.SyncBatchNorm(
                nd.ones((2, 2 + i), ctx=cpu(i)),
                *(nd.ones((2 + i,), ctx=cpu(i)) for _ in range(4)),
                **arguments,
            )
            for i in range(2)
        ]
    for each in out:
        with pytest.raises(MXNetError, match="different numbers of channels"):
            each.wait_to_read()


def test_steps_from_threads_and_ahead() -> None:
    """A context may be several steps ahead of the others, and each may be driven by a thread of its own."""
    net = SyncBatchNorm(in_channels=3, num_devices=2, prefix="ahead_")
    net.initialize(ctx=[cpu(0), cpu(1)])
    data = np.random.default_rng(0).normal(size=(8, 2, 4, 3)).astype("float32")
    results: list[list[Any]] = [[], []]

    def run(i: int) -> None:
        for step in data:
            with autograd.record():
                results[i].append(net(nd.array(step[i], ctx=cpu(i))))

    threads = [threading.Thread(target=run, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for step, *out in zip(data, *results, strict=True):
        mean, deviation = step.mean((0, 1)), np.sqrt(step.var((0, 1)) + 1e-5)
        for i in range(2):
            close(out[i], (step[i] - mean) / deviation)


def test_number_of_devices_is_guessed_aloud() -> None:
    with pytest.warns(UserWarning, match="num_devices: 1 by the number of GPUs"):
        SyncBatchNorm()


def test_layers_of_several_threads_and_copies_do_not_meet() -> None:
    """Names are counted per thread; what belongs together is one layer on all contexts."""
    made: list[SyncBatchNorm] = []
    threads = [threading.Thread(target=lambda: made.append(SyncBatchNorm(num_devices=2))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({layer.prefix for layer in made}) == 1
    made += [copy.deepcopy(made[0]), pickle.loads(pickle.dumps(made[0]))]
    assert len({layer(sym.var("x")).attr("key") for layer in made}) == 5


def test_a_layer_that_is_gone_leaves_its_key() -> None:
    def key(layer: Any) -> str:
        return str(layer._kwargs["key"])

    def made() -> SyncBatchNorm:
        return SyncBatchNorm(in_channels=2, num_devices=2, prefix="gone_")

    layers = [made() for _ in range(3)]
    assert [key(layer) for layer in layers] == ["gone_", "gone_#1", "gone_#2"]
    layers[0] = layers[1] = None  # type: ignore[call-overload]
    gc.collect()
    assert [key(copy.copy(layers[2])), key(made())] == ["gone_", "gone_"]
    gc.collect()
    layers += [made(), made(), made()]
    assert [key(layer) for layer in layers[3:]] == ["gone_", "gone_#1", "gone_#3"]
