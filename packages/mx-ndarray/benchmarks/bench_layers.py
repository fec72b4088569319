# SPDX-License-Identifier: Apache-2.0
"""Layers recorded, run forward and backward, and optimizer updates, beside PyTorch eager in the same process.

Both run in turns and compute the same gradients from the same head, which stay with the arrays; the best
turn counts. Arrays of both live on: PyTorch's memory is not given back to the system, ours comes from its
pool. With one thread (OMP_NUM_THREADS=1 MXNET_OMP_MAX_THREADS=1) the CPU time of the process is taken,
which other load on the machine hardly changes.

    python bench_layers.py [name ...]
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from mx_core.testing.benchmark import record
from mx_ndarray import autograd, nd

try:
    import torch
    from torch.nn import functional
except ImportError:
    torch = functional = None

#: minutes that `nox -s bench` gives it
MINUTES = 60
THREADS = int(os.environ.get("OMP_NUM_THREADS", len(os.sched_getaffinity(0))))
ROUNDS = 9
SECONDS = 0.4  # at most for a case
PAUSE = 0.01  # seconds


class Case(NamedTuple):
    """A layer: ours and PyTorch's of the arrays; those whose gradients are computed come first."""

    name: str
    arrays: Sequence[np.ndarray]
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    constants: int = 0  # arrays without gradients, at the end
    train: bool = True
    narrow: int = 0  # arrays in bfloat16, at the beginning


def numbers(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    """Normal numbers of these shapes."""
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def norms() -> Iterator[Case]:
    """Normalisations, in training."""
    x, weight, bias = numbers((32, 64, 56, 56), (64,), (64,))
    mean, var = np.zeros(64, np.float32), np.ones(64, np.float32)
    yield Case("batch norm", [x, weight, bias, mean, var],
               lambda x, w, b, m, v: nd.BatchNorm(x, w, b, m, v, fix_gamma=False),
               lambda x, w, b, m, v: functional.batch_norm(x, m, v, w, b, training=True), constants=2)  # fmt: skip
    yield Case("batch norm, bfloat16", [x, weight, bias, mean, var],
               lambda x, w, b, m, v: nd.BatchNorm(x, w, b, m, v, fix_gamma=False),
               lambda x, w, b, m, v: functional.batch_norm(x, m, v, w, b, training=True),
               constants=2, narrow=1)  # fmt: skip
    channels_last = x.transpose(0, 2, 3, 1).copy()
    for name, narrow in (("batch norm, channels last", 0), ("batch norm, channels last, bfloat16", 1)):
        yield Case(name, [channels_last, weight, bias, mean, var],
                   lambda x, w, b, m, v: nd.BatchNorm(x, w, b, m, v, fix_gamma=False, axis=3),
                   lambda x, w, b, m, v: functional.batch_norm(x.permute(0, 3, 1, 2), m, v, w, b, training=True),
                   constants=2, narrow=narrow)  # fmt: skip
    yield Case("batch norm, inference", [x, weight, bias, mean, var],
               lambda x, w, b, m, v: nd.BatchNorm(x, w, b, m, v, fix_gamma=False),
               lambda x, w, b, m, v: functional.batch_norm(x, m, v, w, b), constants=5, train=False)  # fmt: skip
    for name, narrow in (("group norm", 0), ("group norm, bfloat16", 3)):
        yield Case(name, [x, weight[:32], bias[:32]], lambda x, w, b: nd.GroupNorm(x, w, b, num_groups=32),
                   lambda x, w, b: functional.group_norm(x, 32, w.repeat_interleave(2), b.repeat_interleave(2)),
                   narrow=narrow)  # fmt: skip
    yield Case("instance norm", [x, weight, bias], nd.InstanceNorm,
               lambda x, w, b: functional.instance_norm(x, weight=w, bias=b))  # fmt: skip
    rows = numbers((4096, 1024), (1024,), (1024,))
    yield Case("layer norm", rows, nd.LayerNorm, lambda x, w, b: functional.layer_norm(x, (1024,), w, b))
    yield Case("local response norm", [x[:, :, :28, :28].copy()], lambda x: nd.LRN(x, nsize=5),
               lambda x: functional.local_response_norm(x, 5, k=2.0))  # fmt: skip


def activations() -> Iterator[Case]:
    """Activations and losses."""
    (x,) = numbers((4096, 1024))
    for name in ("relu", "tanh", "sigmoid"):
        yield Case(name, [x], getattr(nd, name), torch and getattr(torch, name))
    yield Case(
        "softplus", [x], lambda x: nd.Activation(x, act_type="softrelu"), functional and functional.softplus
    )
    yield Case("gelu", [x], lambda x: nd.LeakyReLU(x, act_type="gelu"), functional and functional.gelu)
    yield Case(
        "elu", [x], lambda x: nd.LeakyReLU(x, act_type="elu", slope=1.0), functional and functional.elu
    )
    yield Case("softmax", [x], nd.softmax, lambda x: x.softmax(-1))
    yield Case("log softmax", [x], nd.log_softmax, lambda x: x.log_softmax(-1))
    yield Case("dropout", [x], lambda x: nd.Dropout(x, p=0.5), lambda x: functional.dropout(x, 0.5))
    (scores,) = numbers((1024, 10_000))
    labels = np.random.default_rng(0).integers(0, 10_000, 1024)
    yield Case("softmax output", [scores, labels.astype(np.float32)], nd.SoftmaxOutput,
               lambda x, _: functional.cross_entropy(x, torch.from_numpy(labels), reduction="sum"),
               constants=1)  # fmt: skip
    yield Case("softmax cross entropy", [scores, labels.astype(np.float32)], nd.softmax_cross_entropy,
               lambda x, _: functional.cross_entropy(x, torch.from_numpy(labels), reduction="sum"),
               constants=1)  # fmt: skip


def windows() -> Iterator[Case]:
    """Pooling and convolutions."""
    (x,) = numbers((32, 64, 56, 56))
    yield Case("max pooling 3/2", [x],
               lambda x: nd.Pooling(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="max"),
               lambda x: functional.max_pool2d(x, 3, 2, 1))  # fmt: skip
    yield Case("max pooling 2/2", [x], lambda x: nd.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max"),
               lambda x: functional.max_pool2d(x, 2))  # fmt: skip
    yield Case("mean pooling 2/2", [x], lambda x: nd.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="avg"),
               lambda x: functional.avg_pool2d(x, 2))  # fmt: skip
    yield Case("global pooling", [x], lambda x: nd.Pooling(x, global_pool=True, pool_type="avg"),
               lambda x: functional.adaptive_avg_pool2d(x, 1))  # fmt: skip
    yield Case("nearest upsampling", [x[:8].copy()], lambda x: nd.UpSampling(x, scale=2, sample_type="nearest"),
               lambda x: functional.interpolate(x, scale_factor=2))  # fmt: skip
    (small,) = numbers((16, 64, 28, 28))
    for name, filters, kernel, groups, stride in (
        ("convolution 3x3", 64, 3, 1, 1), ("convolution 1x1", 256, 1, 1, 1), ("convolution 3x3/2", 128, 3, 1, 2),
        ("depthwise convolution", 64, 3, 64, 1), ("grouped convolution", 64, 3, 16, 1),
    ):  # fmt: skip
        weight, bias = numbers((filters, 64 // groups, kernel, kernel), (filters,))
        yield Case(name, [small, weight, bias],
                   lambda x, w, b, f=filters, k=kernel, g=groups, s=stride: nd.Convolution(
                       x, w, b, kernel=(k, k), pad=(k // 2, k // 2), stride=(s, s), num_filter=f, num_group=g),
                   lambda x, w, b, k=kernel, g=groups, s=stride: functional.conv2d(x, w, b, s, k // 2, 1, g),
                   )  # fmt: skip
    (weight,) = numbers((64, 32, 4, 4))
    yield Case("deconvolution 4x4/2", [small, weight],
               lambda x, w: nd.Deconvolution(x, w, kernel=(4, 4), stride=(2, 2), pad=(1, 1), num_filter=32),
               lambda x, w: functional.conv_transpose2d(x, w, None, 2, 1))  # fmt: skip
    volume, weight = numbers((2, 32, 16, 28, 28), (32, 32, 3, 3, 3))
    yield Case("convolution of volumes", [volume, weight],
               lambda x, w: nd.Convolution(x, w, kernel=(3, 3, 3), pad=(1, 1, 1), num_filter=32, no_bias=True),
               lambda x, w: functional.conv3d(x, w, None, 1, 1))  # fmt: skip
    line, weight = numbers((32, 128, 512), (128, 128, 3))
    yield Case("convolution of sequences", [line, weight],
               lambda x, w: nd.Convolution(x, w, kernel=(3,), pad=(1,), num_filter=128, no_bias=True),
               lambda x, w: functional.conv1d(x, w, None, 1, 1))  # fmt: skip


def products() -> Iterator[Case]:
    """Products, embeddings, indices."""
    x, weight, bias = numbers((256, 1024), (1024, 1024), (1024,))
    yield Case("fully connected", [x, weight, bias], lambda x, w, b: nd.FullyConnected(x, w, b, num_hidden=1024),
               functional and functional.linear)  # fmt: skip
    yield Case("dot", [x, weight], nd.dot, lambda a, b: a @ b)
    yield Case("batch_dot", numbers((64, 128, 64), (64, 64, 128)), nd.batch_dot, lambda a, b: a @ b)
    yield Case("batch_dot, transposed", numbers((64, 128, 64), (64, 128, 64)),
               lambda a, b: nd.batch_dot(a, b, transpose_b=True), lambda a, b: a @ b.transpose(1, 2))  # fmt: skip
    (table,) = numbers((20_000, 256))
    words = np.random.default_rng(0).integers(0, 20_000, (64, 64))
    yield Case("embedding", [table, words.astype(np.float32)],
               lambda w, i: nd.Embedding(i, w, input_dim=20_000, output_dim=256),
               lambda w, _: functional.embedding(torch.from_numpy(words), w), constants=1)  # fmt: skip
    queries = numbers((128, 16, 3 * 512))
    yield Case("self attention", queries, _attention, _their_attention)


def _attention(projected: Any) -> Any:
    scores = nd.contrib.interleaved_matmul_selfatt_qk(projected, heads=8)
    return nd.contrib.interleaved_matmul_selfatt_valatt(projected, nd.softmax(scores), heads=8)


def _their_attention(projected: Any) -> Any:
    steps, batch, _ = projected.shape
    query, key, value = projected.reshape(steps, batch * 8, 3, 64).permute(2, 1, 0, 3)
    mixed = functional.scaled_dot_product_attention(query, key, value)
    return mixed.transpose(0, 1).reshape(steps, batch, 512)


def elementwise() -> Iterator[Case]:
    """Chains and reductions that training loops write."""
    x, y, row = numbers((2048, 1024), (2048, 1024), (1, 1024))
    yield Case(
        "mean squared error",
        [x, y],
        lambda a, b: nd.mean(nd.square(a - b)),
        lambda a, b: ((a - b) ** 2).mean(),
    )
    yield Case("a * b + row", [x, y, row], lambda a, b, c: a * b + c, lambda a, b, c: a * b + c)
    yield Case("sum over an axis", [x], lambda a: nd.sum(a, axis=1), lambda a: a.sum(1))
    yield Case("max over an axis", [x], lambda a: nd.max(a, axis=1), lambda a: a.amax(1))
    yield Case("norm", [x], nd.norm, lambda a: a.norm())
    yield Case("transpose", [x], nd.transpose, lambda a: a.t().contiguous())
    (images,) = numbers((32, 64, 56, 56))
    yield Case("channels last, bfloat16", [images], lambda a: nd.transpose(a, axes=(0, 2, 3, 1)),
               lambda a: a.permute(0, 2, 3, 1).contiguous(), narrow=1)  # fmt: skip
    yield Case("concat", [x, y], lambda a, b: nd.concat(a, b, dim=1), lambda a, b: torch.cat([a, b], 1))
    yield Case("slice", [x], lambda a: nd.slice_axis(a, axis=1, begin=100, end=900),
               lambda a: a[:, 100:900].contiguous())  # fmt: skip


def updates() -> Iterator[tuple[str, Callable[[], object], Callable[[], object]]]:
    """Optimizer steps of one large weight and of many small ones; PyTorch's fused ones where it has them."""
    for many, shape in ((1, (2048, 2048)), (50, (128, 128))):
        size = f"{many} x {shape[0]}"
        yield f"SGD with momentum, {size}", _sgd(many, shape), _their_step("SGD", many, shape, momentum=0.9)
        yield f"Adam, {size}", _adam(many, shape), _their_step("Adam", many, shape)


def _weights(many: int, shape: tuple[int, ...], copies: int) -> list[list[Any]]:
    return [[nd.array(np.full(shape, 0.5, np.float32)) for _ in range(copies)] for _ in range(many)]


def _sgd(many: int, shape: tuple[int, ...]) -> Callable[[], object]:
    sets = _weights(many, shape, 3)
    flat, outs = [a for s in sets for a in s], [s[0] for s in sets]
    rates = {"lrs": (0.01,) * many, "wds": (0.0,) * many}

    def step() -> None:
        if many == 1:
            nd.sgd_mom_update(*flat, lr=0.01, momentum=0.9, out=outs[0])
        else:
            nd.multi_sgd_mom_update(*flat, **rates, momentum=0.9, num_weights=many, out=outs)
        nd.waitall()

    return step


def _adam(many: int, shape: tuple[int, ...]) -> Callable[[], object]:
    sets = _weights(many, shape, 4)

    def step() -> None:
        for one in sets:
            nd.adam_update(*one, lr=0.01, out=one[0])
        nd.waitall()

    return step


def _their_step(name: str, many: int, shape: tuple[int, ...], **options: Any) -> Callable[[], object]:
    if torch is None:
        return lambda: None
    weights = [torch.full(shape, 0.5, requires_grad=True) for _ in range(many)]
    for weight in weights:
        weight.grad = torch.full(shape, 0.5)
    step: Callable[[], object] = getattr(torch.optim, name)(weights, lr=0.01, fused=True, **options).step
    return step


def ours(case: Case) -> Callable[[], object]:
    """A function that runs our layer once."""
    arrays = [nd.array(a, dtype="bfloat16" if i < case.narrow else None) for i, a in enumerate(case.arrays)]
    wanted = arrays[: len(arrays) - case.constants]
    for array in wanted:
        array.attach_grad()
    heads: list[Any] = []

    def step() -> None:
        if not case.train:
            case.ours(*arrays).wait_to_read()
            return
        with autograd.record():
            y = case.ours(*arrays)
        if not heads:
            heads.append(nd.ones(y.shape, dtype=y.dtype))
        y.backward(heads[0])
        for array in wanted:
            gradient = array.grad
            assert gradient is not None
            gradient.wait_to_read()

    return step


def theirs(case: Case) -> Callable[[], object]:
    """The same of PyTorch's."""
    arrays = [torch.from_numpy(a.copy()) for a in case.arrays]
    arrays = [a.bfloat16() if i < case.narrow else a for i, a in enumerate(arrays)]
    wanted = arrays[: len(arrays) - case.constants]
    heads: list[Any] = []

    def step() -> None:
        if not case.train:
            with torch.no_grad():
                case.theirs(*arrays)
            return
        for array in wanted:
            array.requires_grad_()
            array.grad = None  # to be made, not added to
        y = case.theirs(*arrays)
        if not heads:
            heads.append(torch.ones_like(y))
        y.backward(heads[0])

    return step


def report(name: str, run: Callable[[], object], other: Callable[[], object] | None) -> None:
    """One line: milliseconds, and the ratio of speeds."""
    runs = [run, other] if other is not None else [run]
    clock = time.process_time if THREADS == 1 else time.perf_counter
    times = [float("inf")] * len(runs)
    began = time.perf_counter()
    for turn in range(ROUNDS + 1):
        for i, one in enumerate(runs):
            if THREADS > 1:  # idle threads of the other fall asleep, one's own wake
                time.sleep(PAUSE)
                one()
            start = clock()
            one()
            times[i] = min(times[i], clock() - start)
        if turn > 1 and time.perf_counter() - began > SECONDS:
            break
    ratio = times[1] / times[0] if other is not None else None
    record(name, times[0] * 1e3, "ms", baseline=None if other is None else "PyTorch", ratio=ratio)


def main(wanted: Sequence[str]) -> None:
    """Measures the cases named, or all."""
    for option in (-1, -3):  # glibc's M_TRIM_THRESHOLD and M_MMAP_THRESHOLD: freed memory is kept
        ctypes.CDLL(None).mallopt(option, 2**31 - 1)
    if torch is not None:
        torch.set_num_threads(THREADS)
    print(f"{THREADS} threads, forward and backward; ratios of speeds")
    for group in (norms, activations, windows, products, elementwise):
        for case in group():
            if not wanted or case.name in wanted:
                report(case.name, ours(case), theirs(case) if torch is not None else None)
    for name, run, other in updates():
        if not wanted or name in wanted:
            report(name, run, other if torch is not None else None)


if __name__ == "__main__":
    main(sys.argv[1:])
