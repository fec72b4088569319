# SPDX-License-Identifier: Apache-2.0
"""How fast are ResNet's convolutions on plain tensors, beside bare oneDNN and PyTorch?

Run: `python benchmarks/bench_convolution.py [batch]`. Prints GFLOP/s (2 flops per multiply-add) of
the forward, data-gradient and weight-gradient computation, and our share of bare oneDNN's speed in
blocked layouts; the difference is the reorders from and to row-major memory. With PyTorch
installed, its forward time in the same process is shown too.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np
from calls import NULL, WRITE, caller
from limits import best, library

from mx_core.testing.benchmark import record

#: channels, size, filters, kernel, stride: one of each kind in ResNet-50
LAYERS = [
    (3, 224, 64, 7, 2), (64, 56, 64, 1, 1), (64, 56, 64, 3, 1), (64, 56, 256, 1, 1), (256, 56, 512, 1, 2),
    (128, 28, 128, 3, 1), (256, 14, 256, 3, 1), (1024, 14, 256, 1, 1), (512, 7, 512, 3, 1),
    (512, 7, 2048, 1, 1),
]  # fmt: skip


def ours(x: np.ndarray, w: np.ndarray, y: np.ndarray, attrs: dict) -> list[float]:
    """Seconds of forward, data gradient and weight gradient."""
    times = [best(caller("Convolution", attrs, [x, w], into=[y])[0])]
    grads = [np.empty_like(x), np.empty_like(w)]
    for requests in ([WRITE, NULL], [NULL, WRITE]):
        run, _, _ = caller("_backward_Convolution", attrs, [y, x, w], into=grads, requests=requests)
        times.append(best(run))
    return times


def torch_forward(x: np.ndarray, w: np.ndarray, stride: int, pad: int) -> float | None:
    """Seconds of PyTorch's convolution, if it is installed."""
    try:
        import torch
    except ImportError:
        return None
    a, b = torch.from_numpy(x), torch.from_numpy(w)
    with torch.no_grad():
        return best(lambda: torch.nn.functional.conv2d(a, b, stride=stride, padding=pad))


def main(batch: int) -> None:
    """Prints the records."""
    print(f"batch {batch}, float32")
    totals = np.zeros(2)
    limit = library()
    for c, size, filters, kernel, stride in LAYERS:
        pad = kernel // 2
        out = (size + 2 * pad - kernel) // stride + 1
        x = np.ones((batch, c, size, size), np.float32)
        w = np.ones((filters, c, kernel, kernel), np.float32)
        y = np.ones((batch, filters, out, out), np.float32)
        attrs: dict[str, Any] = {"kernel": (kernel,) * 2, "stride": (stride,) * 2, "pad": (pad,) * 2}
        attrs |= {"num_filter": filters, "no_bias": True}
        sizes = map(ctypes.c_int64, (batch, c, size, filters, kernel, stride, pad))
        bare = (ctypes.c_double * 3)()
        limit.convolution_limit(*sizes, 7, bare)
        got = ours(x, w, y, attrs)
        flops = 2 * y.size * c * kernel**2 / 1e9
        theirs = torch_forward(x, w, stride, pad)
        layer = f"{c}x{size} -> {filters} k{kernel} s{stride}"
        for part, took, limit_of in zip(
            ("forward", "data gradient", "weight gradient"), got, bare, strict=True
        ):
            record(f"{layer}, {part}", flops / took, "GFLOP/s", baseline="bare oneDNN", ratio=limit_of / took)
        if theirs:
            record(f"{layer}, forward", flops / got[0], "GFLOP/s", baseline="PyTorch", ratio=theirs / got[0])
        totals += (sum(bare), sum(got))
    record("all layers", totals[1] * 1e3, "ms", baseline="bare oneDNN", ratio=totals[0] / totals[1])


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8)
