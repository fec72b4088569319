# SPDX-License-Identifier: Apache-2.0
"""NDArrays on a GPU, real or fake: every number is compared with the same on the CPU; see `plans.py`."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from mx_core import cpu, cpu_pinned, dtypes, gpu, num_gpus, services
from mx_core.context import gpu_memory_info
from mx_core.errors import ArgumentError, MXNetError, NoKernelError, OutOfMemoryError
from mx_ndarray import autograd, nd, random

GPUS = range(min(num_gpus(), 2))


@pytest.fixture(autouse=True)
def leaves_nothing_behind() -> Iterator[None]:
    """No block of a GPU is in use after a test that was not before."""
    before = [in_use(gpu(i)) for i in GPUS]
    yield
    gc.collect()
    nd.waitall()
    assert [in_use(gpu(i)) for i in GPUS] == before


def in_use(ctx: Any) -> int:
    """Bytes without the workspaces of cuBLAS, which stay."""
    storage = services.storage("gpu")
    return int(storage.stats(ctx).bytes_in_use) - storage.holders(ctx).get("cuBLAS", 0)


@pytest.fixture(params=GPUS, ids=[f"gpu{i}" for i in GPUS])
def ctx(request: Any) -> Any:
    return gpu(request.param)


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "uint8", "int8", "int32", "int64"])
@pytest.mark.parametrize("shape", [(), (1,), (3, 4), (0, 3), (1031,), (257, 129)])
def test_there_and_back(dtype: str, shape: tuple[int, ...], ctx: Any) -> None:
    x = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
    on_gpu = nd.array(x, ctx=ctx, dtype=dtype)
    assert on_gpu.context == ctx and on_gpu.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(on_gpu.asnumpy(), x)
    np.testing.assert_array_equal(on_gpu.as_in_context(cpu()).asnumpy(), x)
    np.testing.assert_array_equal(on_gpu.copy().asnumpy(), x)


def test_arithmetic(ctx: Any) -> None:
    a, b, row = numbers(5, 7), numbers(5, 7, seed=1), numbers(7, seed=2)
    x, y, r = (nd.array(v, ctx=ctx) for v in (a, b, row))
    for found, wanted in (
        (x + y, a + b), (x * 2 - y / 3, a * 2 - b / 3), (x + r, a + row), (1 / (x * x + 1), 1 / (a * a + 1)),
        (x > y, (a > b).astype(np.float32)), (nd.maximum(x, 0), np.maximum(a, 0)), (-x, -a),
        (nd.tanh(x) + nd.exp(y), np.tanh(a) + np.exp(b)), (x.astype("float64"), a.astype(np.float64)),
        (nd.clip(x, -1, 1), a.clip(-1, 1)), (nd.where(x > y, x, y), np.maximum(a, b)),
    ):  # fmt: skip
        assert found.context == ctx
        np.testing.assert_allclose(found.asnumpy(), wanted, rtol=1e-5, atol=1e-6)
    x += y
    x *= 0.5
    np.testing.assert_allclose(x.asnumpy(), (a + b) * 0.5, rtol=1e-6)


def test_made_there(ctx: Any) -> None:
    np.testing.assert_array_equal(nd.zeros((2, 3), ctx=ctx).asnumpy(), np.zeros((2, 3)))
    np.testing.assert_array_equal(nd.ones((4,), ctx=ctx, dtype="int32").asnumpy(), np.ones(4))
    np.testing.assert_array_equal(
        nd.full((2, 2), 3.141592653589793, ctx=ctx, dtype="float64").asnumpy(), np.full((2, 2), np.pi)
    )


def test_shapes_and_reductions(ctx: Any) -> None:
    a = numbers(6, 4, 10)
    x = nd.array(a, ctx=ctx)
    for found, wanted in (
        (x.reshape((24, 10)), a.reshape(24, 10)), (x.expand_dims(1), a[:, None]), (x.flatten(), a.reshape(6, 40)),
        (x.sum(), a.sum().reshape(1)), (x.mean(axis=1), a.mean(1)), (x.max(axis=(0, 2)), a.max((0, 2))),
        (x.min(), a.min().reshape(1)), (x.sum(axis=2, keepdims=True), a.sum(2, keepdims=True)),
        (nd.norm(x), np.sqrt((a * a).sum()).reshape(1)), (x[2], a[2]), (x[1:3], a[1:3]),
        (nd.array(a[:, :1], ctx=ctx).broadcast_to((6, 4, 10)), np.broadcast_to(a[:, :1], a.shape)),
    ):  # fmt: skip
        assert found.context == ctx and found.shape == wanted.shape
        np.testing.assert_allclose(found.asnumpy(), wanted, rtol=1e-5, atol=1e-5)


def test_parts(ctx: Any) -> None:
    a, b = numbers(6, 4, 5), numbers(6, 4, 5, seed=1)
    x, y = nd.array(a, ctx=ctx), nd.array(b, ctx=ctx)
    for found, wanted in (
        (x.T, a.T), (x.transpose((1, 0, 2)), a.transpose(1, 0, 2)), (x[:, 1:3], a[:, 1:3]), (x[:, ::-1], a[:, ::-1]),
        (nd.concat(x, y, dim=1), np.concatenate([a, b], 1)), (nd.stack(x, y, axis=2), np.stack([a, b], 2)),
        (nd.split(x, num_outputs=2, axis=0)[1], a[3:]), (nd.flip(x, axis=1), a[:, ::-1]),
    ):  # fmt: skip
        np.testing.assert_array_equal(found.asnumpy(), wanted)
    x[:, 1] = 7
    x[2:4, :, 3] = y[2:4, :, 3]
    a[:, 1] = 7
    a[2:4, :, 3] = b[2:4, :, 3]
    np.testing.assert_array_equal(x.asnumpy(), a)


def test_gradients_of_parts(ctx: Any) -> None:
    found = []
    for where in (ctx, cpu()):
        x = nd.array(numbers(4, 6), ctx=where)
        x.attach_grad()
        with autograd.record():
            y = nd.concat(x[:, 1:3] * 2, x.T[:4, :2], dim=0)
            z = nd.slice_axis(y, axis=0, begin=1, end=7) * nd.broadcast_to(x[:1, :2], shape=(6, 2))
        z.backward()
        found.append(x.grad.asnumpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)


def test_between_contexts() -> None:
    a = numbers(100, 10)
    x = nd.array(a, ctx=cpu_pinned())
    for i in [*GPUS, *reversed(GPUS)]:
        x = x.as_in_context(gpu(i)) + 1
        a = a + 1
    np.testing.assert_allclose(x.asnumpy(), a, rtol=1e-6)
    y = nd.zeros((100, 10))
    x.copyto(y)
    x += 1000  # after the copy was pushed
    np.testing.assert_allclose(y.asnumpy(), a, rtol=1e-6)


def gradients(ctx: Any) -> list[np.ndarray]:
    x, w, b = (nd.array(numbers(*s, seed=i), ctx=ctx) for i, s in enumerate([(8, 5), (8, 5), (5,)]))
    for v in (x, w, b):
        v.attach_grad()
    for _ in range(2):
        with autograd.record():
            y = nd.sigmoid(x * w + b)
            loss = (nd.log(y + 1) * nd.relu(x) - nd.square(w)).mean() + y.sum() * 0.01
        loss.backward()
    return [loss.asnumpy(), *(v.grad.asnumpy() for v in (x, w, b))]


def test_autograd(ctx: Any) -> None:
    for found, wanted in zip(gradients(ctx), gradients(cpu()), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)


def trained(ctx: Any) -> list[np.ndarray]:
    """Parameters of a network of two layers after some steps."""
    rng = np.random.default_rng(7)
    x, y = (nd.array(rng.normal(size=(16, n)).astype(np.float32), ctx=ctx) for n in (6, 2))
    shapes = ((8, 6), (8,), (2, 8), (2,))
    w1, b1, w2, b2 = (nd.array(rng.normal(size=s).astype(np.float32) * 0.5, ctx=ctx) for s in shapes)
    for v in (w1, b1, w2, b2):
        v.attach_grad()
    for _ in range(5):
        with autograd.record():
            hidden = nd.relu(nd.FullyConnected(x, w1, b1, num_hidden=8))
            loss = nd.square(nd.dot(hidden, w2, transpose_b=True) + b2 - y).mean()
        loss.backward()
        for v in (w1, b1, w2, b2):
            v -= 0.1 * v.grad
    return [v.asnumpy() for v in (loss, w1, b1, w2, b2)]


def test_training(ctx: Any) -> None:
    for found, wanted in zip(trained(ctx), trained(cpu()), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def classified(ctx: Any) -> list[np.ndarray]:
    """Losses and weights of a softmax classifier with dropped inputs, trained by Adam."""
    rng = np.random.default_rng(3)
    x = nd.array(rng.normal(size=(32, 10)).astype(np.float32), ctx=ctx)
    label = nd.array(rng.integers(0, 4, 32).astype(np.float32), ctx=ctx)
    w = nd.array(rng.normal(size=(4, 10)).astype(np.float32), ctx=ctx)
    mean, var = nd.zeros(w.shape, ctx=ctx), nd.zeros(w.shape, ctx=ctx)
    w.attach_grad()
    random.seed(5, ctx)
    losses = []
    for _ in range(4):
        with autograd.record():
            z = nd.log_softmax(nd.FullyConnected(nd.Dropout(x, p=0.2), w, no_bias=True, num_hidden=4))
            loss = -nd.pick(z, label).mean()
        loss.backward()
        nd.adam_update(w, w.grad, mean, var, lr=0.05, out=w)
        losses.append(loss)
    right = (nd.argmax(nd.dot(x, w, transpose_b=True), axis=1) == label).mean()
    return [w.asnumpy(), right.asnumpy(), *(loss.asnumpy() for loss in losses)]


def test_classifier(ctx: Any) -> None:
    for found, wanted in zip(classified(ctx), classified(cpu()), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=1e-5)


def test_gradients_that_are_added(ctx: Any) -> None:
    x = nd.array([1.0, 2.0, 3.0], ctx=ctx)
    x.attach_grad(grad_req="add")
    for _ in range(3):
        with autograd.record():
            y = x * x
        y.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), [6, 12, 18])


def test_random_numbers_are_those_of_the_cpu(ctx: Any) -> None:
    drawn = []
    for where in (ctx, cpu()):
        random.seed(7, where)
        x = nd.random.uniform(-1, 3, shape=(1001,), ctx=where)
        n = nd.random.normal(2, 3, shape=(1001,), ctx=where)
        with autograd.record():
            kept = nd.Dropout(x, p=0.4)
        drawn.append([x.asnumpy(), kept.asnumpy(), n.asnumpy()])
    for found, wanted in zip(*drawn, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(drawn[0][0], drawn[1][0])


def test_temporaries_are_used_again_only_when_done(ctx: Any) -> None:
    """Memory of arrays that die while their kernels wait in a stream goes to the next ones."""
    a = numbers(2000)
    x, total, other = nd.array(a, ctx=ctx), nd.zeros((2000,), ctx=ctx), []
    for i in range(60):
        y = x * i
        total = total + y
        if i % 10 == 0:
            other.append((y + 1).as_in_context(cpu()))
    np.testing.assert_allclose(total.asnumpy(), a * 1770, rtol=1e-4, atol=1e-2)
    for i, copied in zip(range(0, 60, 10), other, strict=True):
        np.testing.assert_allclose(copied.asnumpy(), a * i + 1, rtol=1e-6)


def test_copies_in_while_kernels_run(ctx: Any) -> None:
    batches = [numbers(300, seed=i) for i in range(10)]
    weight = nd.ones((300,), ctx=ctx)
    results = [nd.array(batch, ctx=ctx) * weight + 1 for batch in batches]
    for found, batch in zip(results, batches, strict=True):
        np.testing.assert_array_equal(found.asnumpy(), batch + 1)


def test_rows_that_a_mask_chooses(ctx: Any) -> None:
    """How many there are is known when what is computed before has run; pieces are counted by several blocks."""
    x = numbers(9000, 2)
    for mask in (x[:, 0].round(), np.zeros(9000, np.float32), np.ones(9000, np.float32)):
        data = nd.array(x, ctx=ctx)
        data.attach_grad()
        with autograd.record():
            y = nd.contrib.boolean_mask(data * 2, nd.array(mask, ctx=ctx) + 0)
        y.backward(nd.arange(y.size, ctx=ctx).reshape(y.shape) if y.size else None)
        chosen = mask != 0
        grad = np.zeros_like(x)
        grad[chosen] = 2 * np.arange(2 * chosen.sum(), dtype=np.float32).reshape(-1, 2)
        assert y.context == ctx and y.shape == (chosen.sum(), 2)
        np.testing.assert_array_equal(y.asnumpy(), 2 * x[chosen])
        np.testing.assert_array_equal(data.grad.asnumpy(), grad)
    with pytest.raises(MXNetError, match="expected shape"):
        nd.contrib.boolean_mask(data, nd.array(mask, ctx=ctx), out=nd.zeros((3, 2), ctx=ctx))
        nd.waitall()


def test_memory_that_there_is_not(ctx: Any) -> None:
    with pytest.raises(OutOfMemoryError, match=r"gpu\(\d\): cannot allocate \d+ bytes"):
        nd.ones((1 << 40,), ctx=ctx).wait_to_read()
    np.testing.assert_array_equal(nd.ones((2,), ctx=ctx).asnumpy(), [1, 1])


def test_free_memory(ctx: Any) -> None:
    free, total = gpu_memory_info(ctx.device_id)
    assert 0 < free <= total
    with pytest.raises(ArgumentError, match=r"there is no gpu\(60\)"):
        gpu_memory_info(60)


def test_what_has_no_kernel_says_so(ctx: Any) -> None:
    with pytest.raises(
        NoKernelError,
        match=r"no kernel for 'take' on gpu\(\d\) .*kernels for gpu \(nvrtc\) takes such a call with mode=raise",
    ):
        nd.take(nd.ones((2, 4), ctx=ctx), nd.ones((1,), ctx=ctx), mode="raise")
    with pytest.raises(
        NoKernelError, match=r"'_ones' on gpu\(\d\) with outputs \(complex64\[2\]\).*give ctx=cpu\(\)"
    ):
        nd.ones((2,), ctx=ctx, dtype="complex64")
    with pytest.raises(MXNetError, match="gpu"):
        nd.ones((2,), ctx=ctx) + nd.ones((2,), ctx=cpu())
    with pytest.raises(MXNetError, match=r"gpu\(99\)"):
        nd.ones((2,), ctx=gpu(99))


def test_save_and_load(ctx: Any, tmp_path: Any) -> None:
    x = nd.array(numbers(3, 3), ctx=ctx)
    nd.save(str(tmp_path / "x.params"), {"x": x})
    np.testing.assert_array_equal(nd.load(str(tmp_path / "x.params"))["x"].asnumpy(), x.asnumpy())
    assert dtypes.code(x.dtype) == 0
