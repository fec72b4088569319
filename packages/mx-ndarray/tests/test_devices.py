# SPDX-License-Identifier: Apache-2.0
"""Arrays on an accelerator that works late: see cpp/device.hpp."""

from __future__ import annotations

import copy
import gc
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mx_core import services
from mx_core.context import Context, cpu
from mx_core.errors import ArgumentError, NoKernelError, OutOfMemoryError
from mx_ndarray import NDArray, autograd, nd, random, waitall

pytestmark = pytest.mark.timeout(120)
NAME = "test_device"


def values(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_to_the_device_and_back(device: Context) -> None:
    host = values(30, 40)
    x = nd.array(host, ctx=device)
    assert x.context == device
    np.testing.assert_array_equal(x.asnumpy(), host)
    np.testing.assert_array_equal(x.as_in_context(cpu()).asnumpy(), host)
    np.testing.assert_array_equal(x.copy().asnumpy(), host)
    other = nd.empty((30, 40), ctx=Context(NAME, 1))
    x.copyto(other)
    assert other.context == Context(NAME, 1)
    np.testing.assert_array_equal(other.asnumpy(), host)
    assert x.as_in_context(device) is x
    assert f"@{NAME}(0)>" in repr(x)


@pytest.mark.parametrize("shift", [1, 3, 29])
def test_an_array_is_copied_onto_a_part_of_itself(device: Context, shift: int) -> None:
    host = values(30, 5)
    x = nd.array(host, ctx=device)
    x[:-shift].copyto(x[shift:])
    expected = np.concatenate([host[:shift], host[:-shift]])
    np.testing.assert_array_equal(x.asnumpy(), expected)


def test_a_chain_of_operators_waits_for_what_it_reads(device: Context) -> None:
    host = values(16, 16)
    x = nd.array(host, ctx=device)
    expected = host
    for step in range(30):
        x = (x + 1) * 0.5
        expected = (expected + np.float32(1)) * np.float32(0.5)
        if step % 7 == 3:  # over to the host and back, while the stream is still at work
            x = (x.as_in_context(cpu()) - 1).as_in_context(device)
            expected = expected - 1
    assert x.context == device
    np.testing.assert_allclose(x.asnumpy(), expected, rtol=1e-5)


@pytest.mark.long
def test_memory_goes_back_when_the_stream_has_passed(device: Context, accelerator: Any) -> None:
    waitall()
    gc.collect()
    before = accelerator.native.bytes_in_use()
    expected = values(64, 64)
    x = nd.array(expected, ctx=device)
    for _ in range(20):
        x = nd.dot(x, x) * 0.01  # workspaces, and results nobody keeps
        expected = expected @ expected * np.float32(0.01)
    np.testing.assert_allclose(x.asnumpy(), expected, rtol=1e-3, atol=1e-30)
    del x
    waitall()
    nd.empty((1,), ctx=device).asnumpy()
    waitall()
    gc.collect()
    assert accelerator.native.bytes_in_use() == before


def test_arrays_are_made_on_the_device(device: Context) -> None:
    with device:
        made = [nd.zeros((2, 3)), nd.ones((2, 3)), nd.full((2, 3), 7), nd.array([1, 2])]
    assert all(array.context == device for array in made)
    assert [array.asnumpy().ravel()[1] for array in made] == [0, 1, 7, 2]
    target = nd.empty((2, 3), ctx=device)
    nd.zeros((2, 3), out=target)
    assert target.context == device and not target.asnumpy().any()


def test_random_numbers_are_those_of_the_seed(device: Context) -> None:
    def draw() -> np.ndarray[Any, Any]:
        return random.uniform(shape=(100,), ctx=device).asnumpy()  # type: ignore[no-any-return]

    random.seed(3)
    first = draw()
    random.seed(4, ctx=device)
    second = draw()
    random.seed(3)
    np.testing.assert_array_equal(draw(), first)
    random.seed(4, ctx=device)
    np.testing.assert_array_equal(draw(), second)
    assert 0 <= first.min() < first.max() < 1 and (first != second).any()


def test_views_and_indexing(device: Context) -> None:
    host = np.arange(24, dtype=np.float32).reshape(4, 6)
    x = nd.array(host, ctx=device)
    row = x[1]
    row[:] = 9
    host[1] = 9
    x[2, 1:3] = nd.array([5, 6], ctx=device)
    host[2, 1:3] = [5, 6]
    x[2:, 5] = nd.array([1, 1], ctx=device)
    host[2:, 5] = 1
    x[3] = np.arange(6)
    host[3] = np.arange(6)
    np.testing.assert_array_equal(x.asnumpy(), host)
    for key in (2, slice(1, 3), (slice(None), 2), (slice(None, None, 2), slice(1, 5, 2)), [0, 3, 0]):
        picked = x[key]
        assert picked.context == device
        np.testing.assert_array_equal(picked.asnumpy(), host[key])
    np.testing.assert_array_equal(x.reshape((3, 8)).asnumpy(), host.reshape(3, 8))
    np.testing.assert_array_equal(x[nd.array([1, 2], ctx=device)].asnumpy(), host[[1, 2]])


def test_gradients(device: Context) -> None:
    host, weight = values(5, 4), values(3, 4, seed=1)
    w = nd.array(weight, ctx=device)
    w.attach_grad()
    assert w.grad is not None and w.grad.context == device
    for _ in range(3):
        with autograd.record():
            loss = nd.relu(nd.FullyConnected(nd.array(host, ctx=device), w, num_hidden=3, no_bias=True))
            total = (loss * loss).sum()
        total.backward()
    out = np.maximum(host @ weight.T, 0)
    np.testing.assert_allclose(w.grad.asnumpy(), (2 * out).T @ host, rtol=1e-4, atol=1e-5)


def test_a_copy_between_devices_carries_gradients(device: Context) -> None:
    x = nd.array([1, 2, 3], ctx=cpu())
    x.attach_grad()
    with autograd.record():
        y = (x.as_in_context(device) * 3).as_in_context(cpu()) * 2
    y.backward()
    assert x.grad is not None and x.grad.context == cpu()
    assert x.grad.asnumpy().tolist() == [6, 6, 6]


def test_mixed_contexts_are_refused_at_the_call(device: Context) -> None:
    here, there = nd.ones((2,)), nd.ones((2,), ctx=device)
    message = rf"elemwise_add\] input 1 lies on {NAME}\(0\) but the operator runs on cpu\(0\).*as_in_context"
    with pytest.raises(ArgumentError, match=message):
        here + there
    with pytest.raises(ArgumentError, match=rf"input 1 lies on {NAME}\(1\)"):
        there + nd.ones((2,), ctx=Context(NAME, 1))
    with pytest.raises(ArgumentError, match=rf"output 0 lies on cpu\(0\) but the operator runs on {NAME}"):
        nd.relu(there, out=here)


def test_what_the_device_cannot_compute_names_the_operator_and_a_way_out(device: Context) -> None:
    x = nd.ones((2, 3), ctx=device)
    with pytest.raises(NoKernelError, match=r"no kernel for '_linalg_gelqf'.*as_in_context\(cpu\(\)\)"):
        nd.linalg_gelqf(x)


def test_a_context_that_is_not_there_fails_at_the_call(device: Context) -> None:
    with pytest.raises(
        ArgumentError, match=rf"{NAME}\(7\) does not exist: there is {NAME}\(0\) to {NAME}\(1\)"
    ):
        nd.empty((2,), ctx=Context(NAME, 7))


def test_a_full_device(device: Context, accelerator: Any) -> None:
    accelerator.native.set_limit(1000)
    try:
        with pytest.raises(OutOfMemoryError, match="full"):
            nd.zeros((1000,), ctx=device).asnumpy()
    finally:
        accelerator.native.set_limit(1 << 30)
    assert nd.zeros((1000,), ctx=device).asnumpy().sum() == 0


def test_failures_of_the_host_arrive_behind_device_work(device: Context) -> None:
    with pytest.raises(ZeroDivisionError):
        (nd.test_fails(nd.ones((2,))).as_in_context(device) + 1).asnumpy()


def test_files_and_pickles_keep_the_context(device: Context, tmp_path: Path) -> None:
    x = nd.array([1, 2, 3], ctx=Context(NAME, 1))
    for restored in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert restored.context == x.context
        assert restored.asnumpy().tolist() == [1, 2, 3]
    nd.save(tmp_path / "x.params", {"x": x})
    loaded = nd.load(tmp_path / "x.params")
    assert isinstance(loaded, dict)
    assert isinstance(loaded["x"], NDArray) and loaded["x"].asnumpy().tolist() == [1, 2, 3]


def test_a_training_step(device: Context) -> None:
    data, label = values(8, 6), np.arange(8) % 3
    results = []
    for context in (cpu(), device):
        w = nd.array(values(3, 6, seed=2), ctx=context)
        momentum = nd.zeros((3, 6), ctx=context)
        w.attach_grad()
        x, y = nd.array(data, ctx=context), nd.array(label, ctx=context)
        for _ in range(5):
            with autograd.record():
                out = nd.SoftmaxOutput(nd.FullyConnected(x, w, num_hidden=3, no_bias=True), y)
            out.backward()
            nd.sgd_mom_update(w, w.grad, momentum, lr=0.1, momentum=0.9, out=w)
        results.append(w.asnumpy())
    np.testing.assert_allclose(results[1], results[0], rtol=1e-5, atol=1e-6)


def test_writing_waits_for_copies_in_flight(device: Context) -> None:
    source = nd.ones((1000,))
    copies = [source.as_in_context(device)]
    source[:] = 2  # must not reach the copy
    copies.append(source.as_in_context(device))
    assert [c.asnumpy().mean() for c in copies] == [1, 2]
    assert services.device(NAME).capsule is not None
