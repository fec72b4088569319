# SPDX-License-Identifier: Apache-2.0
"""What one imperative call costs: how does `a + b` on 4×4 compare with NumPy (and PyTorch)?

Prints microseconds per call and the ratio to each baseline that is installed.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable

import numpy as np

from mx_ndarray import NDArray, autograd, nd, waitall


def microseconds(call: Callable[[], object], number: int) -> float:
    """Best of five, per call."""
    call()
    return min(timeit.repeat(call, number=number, repeat=5)) / number * 1e6


def recorded(x: NDArray) -> None:
    """Ten multiplications and their backward pass."""
    with autograd.record():
        y = x
        for _ in range(10):
            y = y * x
    y.backward()


def ours() -> dict[str, float]:
    """Our figures."""
    a, b, x = nd.ones((4, 4)), nd.ones((4, 4)), nd.ones((4, 4))
    x.attach_grad()
    figures = {
        "a + b": microseconds(lambda: a + b, 50_000),
        "a * 2": microseconds(lambda: a * 2, 50_000),
        "a[1]": microseconds(lambda: a[1], 10_000),
        "a.reshape((2, 8))": microseconds(lambda: a.reshape((2, 8)), 10_000),
        "dot(a, b)": microseconds(lambda: nd.dot(a, b), 10_000),
        "10 multiplications + backward": microseconds(lambda: recorded(x), 500),
    }
    waitall()
    return figures


def of_numpy() -> dict[str, float]:
    """NumPy's figures."""
    a, b = np.ones((4, 4), np.float32), np.ones((4, 4), np.float32)
    return {
        "a + b": microseconds(lambda: a + b, 50_000),
        "a * 2": microseconds(lambda: a * 2, 50_000),
        "a[1]": microseconds(lambda: a[1], 10_000),
        "a.reshape((2, 8))": microseconds(lambda: a.reshape((2, 8)), 10_000),
        "dot(a, b)": microseconds(lambda: a.dot(b), 10_000),
    }


def of_torch() -> dict[str, float]:
    """PyTorch's figures; empty when it is not installed."""
    try:
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(1)
    a, b = torch.ones(4, 4), torch.ones(4, 4)
    x = torch.ones(4, 4, requires_grad=True)

    def train() -> None:
        x.grad = None
        y = x
        for _ in range(10):
            y = y * x
        y.backward(torch.ones_like(y))

    return {
        "a + b": microseconds(lambda: a + b, 50_000),
        "a * 2": microseconds(lambda: a * 2, 50_000),
        "a[1]": microseconds(lambda: a[1], 10_000),
        "a.reshape((2, 8))": microseconds(lambda: a.reshape((2, 8)), 10_000),
        "dot(a, b)": microseconds(lambda: a @ b, 10_000),
        "10 multiplications + backward": microseconds(train, 500),
    }


def main() -> None:
    """Measures and prints."""
    figures = ours()
    baselines = {"NumPy": of_numpy(), "PyTorch": of_torch()}
    for name, value in figures.items():
        line = f"{name:32} {value:8.2f} us"
        for baseline, others in baselines.items():
            if name in others:
                line += f"   {value / others[name]:6.2f} x {baseline} ({others[name]:.2f} us)"
        print(line)


if __name__ == "__main__":
    main()
