# SPDX-License-Identifier: Apache-2.0
"""What element types cost: time of each layer in float16, bfloat16 and float64 over its time in float32.

    python bench_types.py [--processor-time] [LAYER...]

Inference and training step of a graph with one layer, the best of some runs in turns. Marked are ratios above 3.
Where other programs take the processor, longer runs are interrupted more often than shorter ones: processor time, of
one thread (OMP_NUM_THREADS=1), compares what is computed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import mx_symbol as mx
from mx_core.context import cpu
from mx_core.testing.benchmark import record
from mx_ndarray import nd
from mx_symbol import sym
from mx_symbol.sym import contrib, linalg

#: minutes that `nox -s bench` gives it
MINUTES = 60
TYPES = ("float32", "float16", "bfloat16", "float64")
LIMIT = 3.0
#: turns of each type, and seconds of a turn
TURNS, TURN = 9, 0.01
Shapes = dict[str, tuple[int, ...]]


def layers() -> dict[str, tuple[mx.Symbol, Shapes]]:
    """Graphs and the shapes of their inputs."""
    x, w = sym.Variable("data"), sym.Variable("w")
    image: Shapes = {"data": (2, 16, 28, 28)}
    last: Shapes = {"data": (2, 28, 28, 16)}
    rows: Shapes = {"data": (64, 1000)}
    square: Shapes = {"data": (500, 500)}
    wide: Shapes = {"data": (32, 256)}
    pair: Shapes = {"data": (8, 64, 64), "w": (8, 64, 64)}
    heads: Shapes = {"data": (64, 4, 3 * 8 * 16)}

    def conv(data: Any = x, **more: Any) -> Any:
        given = {"kernel": (3, 3), "pad": (1, 1), "num_filter": 16, "no_bias": True, **more}
        return sym.Convolution(data, name="c", **given)

    def pool(**more: Any) -> Any:
        return sym.Pooling(x, kernel=(3, 3), stride=(2, 2), **more)

    def relu(data: Any) -> Any:
        return sym.Activation(data, act_type="relu")

    dense = sym.FullyConnected(x, num_hidden=256, name="f")
    scores = contrib.interleaved_matmul_selfatt_qk(x, heads=8)
    return {
        "convolution": (conv(), image),
        "convolution, relu": (relu(conv(no_bias=False)), image),
        "convolution, add": (conv() + x, image),
        "convolution, norm, add, relu": (relu(sym.BatchNorm(conv(), name="b") + x), image),
        "convolution, stride 2, add": (conv(stride=(2, 2)) + w, {**image, "w": (2, 16, 14, 14)}),
        "convolution NHWC, add": (conv(layout="NHWC") + x, last),
        "convolution 1x1": (conv(kernel=(1, 1), pad=(0, 0)), image),
        "convolution of groups": (conv(num_group=4), image),
        "convolution of channels": (conv(num_group=16), image),
        "convolution of channels, stride 2": (
            conv(num_filter=64, num_group=64, stride=(2, 2)),
            {"data": (2, 64, 28, 28)},
        ),
        "convolution of 256 channels, add": (conv(num_filter=256) + x, {"data": (1, 256, 14, 14)}),
        "convolution, dilated": (conv(dilate=(2, 2), pad=(2, 2)), image),
        "convolution 1-D": (conv(kernel=(3,), pad=(1,)), {"data": (2, 32, 200)}),
        "convolution 3-D": (conv(kernel=(3, 3, 3), pad=(1, 1, 1)), {"data": (1, 8, 8, 14, 14)}),
        "deconvolution": (
            sym.Deconvolution(x, kernel=(4, 4), stride=(2, 2), pad=(1, 1), num_filter=16, name="d"),
            {"data": (2, 16, 14, 14)},
        ),
        "dense": (dense, wide),
        "dense, add": (dense + x, wide),
        "dense, gelu": (sym.LeakyReLU(dense, act_type="gelu"), wide),
        "dot": (sym.dot(x, w), {"data": (128, 256), "w": (256, 128)}),
        "batch_dot": (sym.batch_dot(x, w), pair),
        "gemm2": (linalg.gemm2(x, w), pair),
        "attention": (
            contrib.interleaved_matmul_selfatt_valatt(x, sym.softmax(scores), heads=8),
            heads,
        ),
        "pooling max": (pool(pool_type="max"), image),
        "pooling avg": (pool(pool_type="avg"), image),
        "pooling lp": (pool(pool_type="lp", p_value=2), image),
        "pooling avg of all": (
            sym.Pooling(x, kernel=(1, 1), global_pool=True, pool_type="avg"),
            {"data": (8, 256, 14, 14)},
        ),
        "batch norm": (sym.BatchNorm(x, fix_gamma=False, name="b"), image),
        "layer norm": (sym.LayerNorm(x, name="l"), {"data": (64, 512)}),
        "group norm": (sym.GroupNorm(x, num_groups=8, name="l"), image),
        "instance norm": (sym.InstanceNorm(x, name="l"), image),
        "LRN": (sym.LRN(x, nsize=5), image),
        "softmax": (sym.softmax(x), rows),
        "softmax output": (sym.SoftmaxOutput(x, name="s"), rows),
        "tanh": (sym.tanh(x), rows),
        "gelu": (sym.LeakyReLU(x, act_type="gelu"), rows),
        "prelu": (sym.LeakyReLU(x, act_type="prelu", name="p"), {"data": (64, 100, 10)}),
        "dropout": (sym.Dropout(x, p=0.5), rows),
        "take": (sym.take(w, sym.round(x)), {"data": (64, 50), "w": (1000, 128)}),
        "LSTM": (sym.RNN(x, mode="lstm", state_size=64, num_layers=1, name="r"), {"data": (20, 8, 64)}),
        "GRU": (sym.RNN(x, mode="gru", state_size=64, num_layers=1, name="r"), {"data": (20, 8, 64)}),
        "transpose": (sym.transpose(x), square),
        "sum": (sym.sum(x, axis=1), square),
        "broadcast_add": (sym.broadcast_add(x, w), {**square, "w": (1, 500)}),
        "sort": (sym.sort(x), rows),
    }


def stepper(
    net: mx.Symbol,
    shapes: Shapes,
    dtype: str,
    is_train: bool,
    clock: Callable[[], float] = time.perf_counter,
) -> Callable[[], float]:
    """Makes a step and gives its seconds by a clock."""
    types = dict.fromkeys(shapes, dtype)
    executor = net.simple_bind(cpu(), grad_req="write" if is_train else "null", type_dict=types, **shapes)
    for array in executor.arg_arrays:
        array[:] = 0.1

    def step() -> float:
        start = clock()
        executor.forward(is_train=is_train)
        if is_train:
            executor.backward([nd.ones(o.shape, dtype=o.dtype) for o in executor.outputs])
        for array in (*executor.outputs, *(g for g in executor.grad_arrays if g is not None)):
            array.wait_to_read()
        return clock() - start

    return step


def seconds(steps: Sequence[Callable[[], float]]) -> list[float]:
    """The best times of steps that take turns, so that what else the machine does hits all of them."""
    best = [float("inf")] * len(steps)
    for _ in range(TURNS):
        for i, step in enumerate(steps):
            begin = time.perf_counter()
            while True:
                best[i] = min(best[i], step())
                if time.perf_counter() - begin > TURN:
                    break
    return best


def main(chosen: list[str]) -> None:
    """Prints a row per layer and mode."""
    clock = time.process_time if "--processor-time" in chosen else time.perf_counter
    chosen = [name for name in chosen if name != "--processor-time"]
    print(f"{'layer':34} {'':9} {'float32':>11}" + "".join(f"{name:>11}" for name in TYPES[1:]))
    above = total = 0
    for name, (net, shapes) in layers().items():
        if chosen and name not in chosen:
            continue
        for is_train in (False, True):
            base, *others = seconds([stepper(net, shapes, dtype, is_train, clock) for dtype in TYPES])
            ratios = [other / base for other in others]
            above, total = above + sum(r > LIMIT for r in ratios), total + len(ratios)
            cells = "".join(f"{r:9.2f} {'!' if r > LIMIT else ' '}" for r in ratios)
            print(
                f"{name:34} {'training' if is_train else 'inference':9} {base * 1e6:8.0f} us{cells}",
                flush=True,
            )
    record(f"more than {LIMIT:g} x float32, of {total}", above, "ratios")


if __name__ == "__main__":
    main(sys.argv[1:])
