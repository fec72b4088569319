# SPDX-License-Identifier: Apache-2.0
"""What an imperative call costs, from `a + b` on 4x4 to a training step, beside NumPy, PyTorch and MXNet 1.9.1.

Every framework runs in processes of its own, in turns; the best turn counts. MXNet 1.9.1 needs an
old Python, which MX_BENCH_MXNET_PYTHON names; MX_BENCH_TORCH_PYTHON may name one that has PyTorch.
The calls are in imperative/cases.py.

Then what a call with a new shape costs the calling thread, beside its limit, where a ratio below 1 is above the limit,
and beside PyTorch. Those are in imperative/new_shapes.py. Of layers the making of the plan is printed, which may make a
primitive of oneDNN, and what is left without it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from mx_core.testing.benchmark import record

TURNS = 3
BASELINES = ("NumPy", "PyTorch", "MXNet 1.9.1")
_CASES = Path(__file__).parent / "imperative" / "cases.py"
_NEW_SHAPES = Path(__file__).parent / "imperative" / "new_shapes.py"
#: processor time of the calling thread for a call with a new shape
NEW_SHAPE_LIMIT = 50  # microseconds


def measure(framework: str) -> dict[str, float]:
    """Seconds per call of a framework; empty when it is not there."""
    python, environment = sys.executable, dict(os.environ)
    if framework == "MXNet 1.9.1":
        python = os.environ.get("MX_BENCH_MXNET_PYTHON", "")
        environment.pop("PYTHONPATH", None)  # ours is another Python's
    if framework == "PyTorch":
        python = os.environ.get("MX_BENCH_TORCH_PYTHON", python)
    if not python:
        return {}
    command = [python, str(_CASES), framework]
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if run.returncode != 0 and framework == "mx":
        raise SystemExit(run.stderr)
    figures: dict[str, float] = json.loads(run.stdout) if run.returncode == 0 else {}
    return figures


def new_shapes() -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    """Microseconds of processor time per call, those of making its plan, and those of PyTorch's like.

    The best of the turns, each in a process of its own.
    """
    whole: dict[str, float] = {}
    plans: dict[str, float] = {}
    pytorch: dict[str, float] = {}
    for _ in range(TURNS):
        run = subprocess.run([sys.executable, str(_NEW_SHAPES)], capture_output=True, text=True, check=True)
        made = json.loads(run.stdout)
        _keep_best(whole, made["whole"])
        _keep_best(plans, made["plans"])
        python = os.environ.get("MX_BENCH_TORCH_PYTHON", sys.executable)
        run = subprocess.run(
            [python, str(_NEW_SHAPES), "PyTorch"], capture_output=True, text=True, check=False
        )
        if run.returncode == 0:
            _keep_best(pytorch, json.loads(run.stdout)["whole"])
    return whole, plans, pytorch


def _keep_best(best: dict[str, float], figures: dict[str, float]) -> None:
    for name, value in figures.items():
        best[name] = min(value, best.get(name, value))


def main() -> None:
    """Measures and prints."""
    best: dict[str, dict[str, float]] = {}
    for _ in range(TURNS):
        for framework in ("mx", *BASELINES):
            figures = best.setdefault(framework, {})
            for name, value in measure(framework).items():
                figures[name] = min(value, figures.get(name, value))
    for name, value in best["mx"].items():
        for baseline in BASELINES:
            if other := best[baseline].get(name):
                record(name, value * 1e6, "us", baseline=baseline, ratio=other / value)
        if not any(best[baseline].get(name) for baseline in BASELINES):
            record(name, value * 1e6, "us")
    for baseline in BASELINES:
        if not best[baseline]:
            print(f"{baseline} is not installed")
    limit = f"limit of {NEW_SHAPE_LIMIT} us"
    whole, plans, pytorch = new_shapes()
    for name, value in whole.items():
        record(f"{name}, a new shape", value, "us", baseline=limit, ratio=NEW_SHAPE_LIMIT / value)
        if name in pytorch:
            record(f"{name}, a new shape", value, "us", baseline="PyTorch", ratio=pytorch[name] / value)
        if name in plans:
            rest = max(value - plans[name], 0.1)
            record(f"{name}, a new shape: making the plan", plans[name], "us")
            record(f"{name}, a new shape: the rest", rest, "us", baseline=limit, ratio=NEW_SHAPE_LIMIT / rest)


if __name__ == "__main__":
    main()
