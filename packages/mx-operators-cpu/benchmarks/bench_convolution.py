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
from pathlib import Path

import numpy as np

from mx_core import operators

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "onednn"))
import plans
from limits import best, library

#: channels, size, filters, kernel, stride: one of each kind in ResNet-50
LAYERS = [
    (3, 224, 64, 7, 2), (64, 56, 64, 1, 1), (64, 56, 64, 3, 1), (64, 56, 256, 1, 1), (256, 56, 512, 1, 2),
    (128, 28, 128, 3, 1), (256, 14, 256, 3, 1), (1024, 14, 256, 1, 1), (512, 7, 512, 3, 1),
    (512, 7, 2048, 1, 1),
]  # fmt: skip


def ours(x: np.ndarray, w: np.ndarray, y: np.ndarray, attrs: dict) -> list[float]:
    """Seconds of forward, data gradient and weight gradient."""
    forward, backward = operators.get("Convolution"), operators.get("_backward_Convolution")
    p = forward.Param.parse(attrs)
    plan = plans.prepare(forward, p, [x, w], [y])
    times = [best(lambda: plans.run(plan, [x, w], [y]))]
    dx, dw = np.empty_like(x), np.empty_like(w)
    plan = plans.prepare(backward, p, [y, x, w], [dx, dw])
    for req in ([plans.WRITE, plans.NULL], [plans.NULL, plans.WRITE]):
        times.append(best(lambda req=req: plans.run(plan, [y, x, w], [dx, dw], req)))  # type: ignore[misc]
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
    """Prints the table."""
    print(f"batch {batch}, float32, GFLOP/s (share of bare oneDNN)")
    print(f"{'layer':>24} {'forward':>15} {'data gradient':>15} {'weight gradient':>15} {'PyTorch fwd':>12}")
    totals = np.zeros(2)
    limit = library()
    for c, size, filters, kernel, stride in LAYERS:
        pad = kernel // 2
        out = (size + 2 * pad - kernel) // stride + 1
        x = np.ones((batch, c, size, size), np.float32)
        w = np.ones((filters, c, kernel, kernel), np.float32)
        y = np.ones((batch, filters, out, out), np.float32)
        attrs = {"kernel": (kernel,) * 2, "stride": (stride,) * 2, "pad": (pad,) * 2}
        attrs |= {"num_filter": filters, "no_bias": True}
        sizes = map(ctypes.c_int64, (batch, c, size, filters, kernel, stride, pad))
        bare = (ctypes.c_double * 3)()
        limit.convolution_limit(*sizes, 7, bare)
        got = ours(x, w, y, attrs)
        flops = 2 * y.size * c * kernel**2 / 1e9
        cells = [f"{flops / t:6.0f} ({b / t:4.0%})" for t, b in zip(got, bare, strict=True)]
        theirs = torch_forward(x, w, stride, pad)
        cells.append(f"{flops / theirs:6.0f}" if theirs else "-")
        layer = f"{c}x{size} -> {filters} k{kernel} s{stride}"
        print(f"{layer:>24} " + " ".join(f"{cell:>15}" for cell in cells))
        totals += (sum(bare), sum(got))
    print(f"sum of bare oneDNN / sum of ours: {totals[0] / totals[1]:.0%}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8)
