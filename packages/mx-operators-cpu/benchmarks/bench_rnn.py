# SPDX-License-Identifier: Apache-2.0
"""Steps of recurrent stacks, forward and backward, beside PyTorch where it is installed.

python bench_rnn.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from calls import THREADS, caller
from limits import best

from mx_core import operators
from mx_core.operator import infer_shapes
from mx_core.testing.benchmark import record

try:
    import torch
except ImportError:
    torch = None

#: name, mode, layers, both directions, steps, batch, inputs, units
CASES: list[tuple[str, str, int, bool, int, int, int, int]] = [
    ("LSTM language model", "lstm", 2, False, 35, 32, 650, 650),
    ("small LSTM", "lstm", 1, False, 30, 16, 64, 64),
    ("LSTM, both directions", "lstm", 2, True, 50, 16, 256, 256),
    ("GRU", "gru", 2, False, 35, 32, 512, 512),
    ("tanh cells", "rnn_tanh", 2, False, 35, 32, 512, 512),
]


def ours(mode: str, layers: int, both: bool, data: np.ndarray, units: int) -> tuple[Any, Any]:
    """Functions that run the operator and its gradient."""
    attrs = {"mode": mode, "state_size": units, "num_layers": layers, "bidirectional": both}
    op = operators.get("RNN")
    p = op.Param.parse(attrs, op="RNN")
    rng = np.random.default_rng(0)
    shapes, _ = infer_shapes(op, p, [data.shape, *[None] * (len(op.inputs(p)) - 1)])
    inputs = [data, *(rng.uniform(-0.05, 0.05, s).astype(np.float32) for s in shapes[1:])]
    forward, outputs, _ = caller("RNN", attrs, inputs)
    forward()
    head = np.ones_like(outputs[0])
    backward, _, _ = caller("_backward_RNN", attrs, [head, *inputs, *outputs])
    return forward, backward


def theirs(mode: str, layers: int, both: bool, data: np.ndarray, units: int) -> tuple[Any, Any]:
    """The same with PyTorch."""
    kind = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}.get(mode, torch.nn.RNN)
    net = kind(data.shape[2], units, layers, bidirectional=both)
    x = torch.from_numpy(data).requires_grad_()

    def forward() -> None:
        with torch.no_grad():
            net(x)

    def step() -> None:
        net.zero_grad(set_to_none=True)
        x.grad = None
        y, _ = net(x)
        y.backward(torch.ones_like(y))

    return forward, step


def milliseconds(run: Callable[[], object]) -> float:
    return best(run) * 1e3


def main() -> None:
    print(f"{THREADS} threads; milliseconds, ratios of speeds to PyTorch's")
    for name, mode, layers, both, steps, batch, inputs, units in CASES:
        data = np.random.default_rng(1).standard_normal((steps, batch, inputs)).astype(np.float32)
        forward, backward = ours(mode, layers, both, data, units)
        f, b = milliseconds(forward), milliseconds(backward)
        others: list[float | None] = [None, None]
        if torch is not None:
            others = [milliseconds(run) for run in theirs(mode, layers, both, data, units)]
        for part, ours_ms, other in (("forward", f, others[0]), ("training step", f + b, others[1])):
            baseline, ratio = (None, None) if other is None else ("PyTorch", other / ours_ms)
            record(f"{name}, {part}", ours_ms, "ms", baseline=baseline, ratio=ratio)


if __name__ == "__main__":
    main()
