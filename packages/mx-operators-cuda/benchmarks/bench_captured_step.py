# SPDX-License-Identifier: Apache-2.0
"""What the host does for a captured step of training and for an operator, on the fake driver of the tests.

A network with 161 arrays of parameters, as many as those of ResNet-50. Processor time of the thread that calls
`step(x, label)` ten times in a row, as a training does, after one that wakes the stand-in: Python, the engine, and this
package. The calls of the driver are those of the stand-in: two copies of inputs, one of the table of numbers where they
have changed, a launch of the graph, two events. A real driver takes another time for them, some microseconds for the
launch alone. So this is no measurement of a GPU; none takes part. In every other row the stand-in measures its own
part: what is left is the part of the packages, to which that of a real driver comes.

Small operators outside of steps are measured in the same way: a launch and an event each.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from mx_core.testing.benchmark import record

LAYERS, WIDTH, BATCH = 80, 4, 2
ROWS, ROW = 40, 10  # steps
#: microseconds of host time, of a step and of an operator
BUDGET, OPERATOR_BUDGET = 20.0, 5.0


class Spent(NamedTuple):
    """Microseconds of a call: all of it, and what is left without the part of the stand-in for the driver."""

    total: float
    own: float


def trained(optimizer: str | None, **settings: Any) -> tuple[Spent, Spent]:
    """Times of a captured step, and of one that is not captured, with an optimizer or without update."""
    from mx_core import gpu
    from mx_gluon import Trainer, loss, nn
    from mx_ndarray import autograd, nd
    from mx_ndarray.captured import captured_step

    net = nn.HybridSequential()
    for _ in range(LAYERS):
        net.add(nn.Dense(WIDTH, in_units=WIDTH, activation="tanh"))
    net.add(nn.Dense(WIDTH, in_units=WIDTH, use_bias=False))
    net.initialize(ctx=gpu())
    net.hybridize(static_alloc=True, static_shape=True)
    criterion = loss.L2Loss()
    trainer = Trainer(net.collect_params(), optimizer or "sgd", settings)

    def forward(x: Any, label: Any) -> Any:
        with autograd.record():
            losses = criterion(net(x), label)
        losses.backward()
        return losses

    def eager(x: Any, label: Any) -> None:
        forward(x.copyto(gpu()), label.copyto(gpu()))
        if optimizer is not None:
            trainer.step(BATCH)

    x, label = nd.ones((BATCH, WIDTH)), nd.ones((BATCH, WIDTH))
    captured = trainer.captured_step(forward, BATCH) if optimizer else captured_step(forward)
    without = measured(lambda: eager(x, label))
    return measured(lambda: captured(x, label)), without


def measured(call: Callable[[], Any]) -> Spent:
    """Medians of calls that come in rows of ten."""
    from mx_ndarray import waitall

    driver = ctypes.CDLL(os.environ["MX_CUDA_DRIVER"])
    driver.fake_cuda_seconds.restype = ctypes.c_double
    whole: list[float] = []
    of_driver: list[float] = []
    for row in range(2 * ROWS):
        clocked = row % 2 == 1
        driver.fake_cuda_clock(clocked)
        call()
        clock = driver.fake_cuda_seconds if clocked else time.thread_time
        begin = clock()
        for _ in range(ROW):
            call()
        (of_driver if clocked else whole).append((clock() - begin) / ROW * 1e6)
        waitall()
    driver.fake_cuda_clock(False)
    total = median(whole[ROWS // 4 :])
    return Spent(total, total - median(of_driver[ROWS // 4 :]))


def recorded(label: str, spent: Spent, budget: float, **baseline: Any) -> None:
    record(label, spent.total, "us", **baseline)
    record(f"{label}, of the packages alone", spent.own, "us")
    record(f"{label}, of the packages alone, of the budget of {budget:g} us", spent.own / budget, "times")


def operators() -> None:
    """A line for each of some operators on four numbers."""
    from mx_core import gpu
    from mx_ndarray import nd

    x, y, out = (nd.ones((4,), ctx=gpu()) for _ in range(3))
    calls: dict[str, Callable[[], Any]] = {
        "nd.relu(x, out=y)": lambda: nd.relu(x, out=out),
        "x + y": lambda: x + y,
        "x.copyto(y)": lambda: x.copyto(out),
    }
    for name, call in calls.items():
        recorded(f"{name} on the GPU, host, stand-in for the driver", measured(call), OPERATOR_BUDGET)


def steps() -> None:
    """A line for each kind of update."""
    from mx_train.lr_scheduler import CosineScheduler

    schedule = {"lr_scheduler": CosineScheduler(10**6, base_lr=0.01)}
    kinds: tuple[tuple[str, str | None, dict[str, Any]], ...] = (
        ("no update", None, {}),
        ("sgd with momentum, a rate that stays", "sgd", {"momentum": 0.9}),
        ("sgd with momentum, a rate that falls at each step", "sgd", {"momentum": 0.9, **schedule}),
        ("adam", "adam", {}),
    )
    for name, optimizer, settings in kinds:
        captured, eager = trained(optimizer, **settings)
        label = f"captured step of {2 * LAYERS + 1} arrays, host, stand-in for the driver: {name}"
        ratio = eager.total / captured.total
        recorded(label, captured, BUDGET, baseline="the same step, not captured", ratio=ratio)


def on_the_stand_in() -> int:
    """Runs this file with the libraries of the tests in the places of the driver and its company."""
    sys.path.insert(0, str(Path(__file__).parents[3] / "tests"))
    fake_machine = import_module("testkit.fake_machine")
    folder = Path(tempfile.mkdtemp())
    try:
        fake_machine.build(folder)
        env = {**os.environ, **fake_machine.environment(folder)}
        return subprocess.run([sys.executable, __file__], check=False, env=env).returncode
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    if "FAKE_NVRTC_FOLDER" in os.environ:
        steps()
        operators()
    elif shutil.which("g++") is None:
        print("bench_captured_step: needs g++, which builds the stand-in")
    else:
        sys.exit(on_the_stand_in())
