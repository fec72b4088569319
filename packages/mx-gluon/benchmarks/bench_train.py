# SPDX-License-Identifier: Apache-2.0
"""Training steps in three styles, Module, Gluon hybridised, Gluon imperative, beside MXNet 1.9.1 and PyTorch eager.

    python bench_train.py [CASE ...]

Every framework runs in processes of its own, in turns; medians count. PyTorch runs on one thread and on all, of which
the faster counts. MXNet 1.9.1 needs an old Python, which MX_BENCH_MXNET_PYTHON names; MX_BENCH_TORCH_PYTHON may name
one that has PyTorch. The networks are in `training`.
A hybridised step is also compared with that of a Module, the same graph as a bound symbol, which takes turns with it in
one process: the median of the turns' ratios counts, of seconds and of the processors' time, which tells of a busy
machine less.

Two ratios have a target, and the records say whether it is met: an imperative step beside PyTorch's, on networks where
the time between operators counts, and a hybridised step beside a Module's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

from training.shapes import CASES

from mx_core.testing.benchmark import record, spread

#: minutes that `nox -s bench` gives it: networks times frameworks
MINUTES = 90
PROCESSES = 3
#: networks of which an imperative step has a target, and how many times as fast as PyTorch's it should be
SMALL, IMPERATIVE = ("MLP", "LeNet"), 1.2
#: how many times as fast as a Module's a hybridised step should be
HYBRIDISED = 0.97
HERE = Path(__file__).parent
Figures = dict[str, dict[str, list[float]]]  # seconds of a step in each turn, by style and clock


def measure(framework: str, case: str) -> Figures:
    """What one process measures; empty when the framework is not there."""
    python, environment = sys.executable, dict(os.environ)
    if framework == "MXNet 1.9.1":
        python = os.environ.get("MX_BENCH_MXNET_PYTHON", "")
    elif framework == "PyTorch":
        python = os.environ.get("MX_BENCH_TORCH_PYTHON", python)
    if not python:
        return {}
    others = [] if framework == "MXNet 1.9.1" else [os.environ.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE), *others]))
    command = [python, "-m", "training.steps", framework, case]
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if run.returncode != 0 and framework == "mx":
        raise SystemExit(run.stderr)
    figures: Figures = json.loads(run.stdout) if run.returncode == 0 else {}
    return figures


def compare(
    what: str, ours: list[float], theirs: list[float], baseline: str, target: float | None = None
) -> None:
    """Prints a style's time beside another's, and whether the ratio is what it should be."""
    ratio = median(theirs) / median(ours)
    tell(what, ours, baseline, ratio, spread(ours) + spread(theirs), target)


def compare_in_turns(
    what: str, ours: list[float], theirs: list[float], baseline: str, target: float | None = None
) -> None:
    """The same for two styles of one process, turn by turn."""
    ratios = [other / own for own, other in zip(ours, theirs, strict=True)]
    tell(what, ours, baseline, median(ratios), spread(ratios), target)


def tell(
    what: str, ours: list[float], baseline: str, ratio: float, uncertain: float, target: float | None
) -> None:
    """Prints a record, with the target if there is one."""
    if target is not None:
        baseline += f" (target {target:g}: {'met' if ratio >= target else 'not met'})"
    record(what, median(ours) * 1e3, "ms", baseline=baseline, ratio=ratio, spread=uncertain)


def main() -> None:
    """Measures and prints."""
    wanted = sys.argv[1:] or list(CASES)
    if unknown := [name for name in wanted if name not in CASES]:
        raise SystemExit(f"no such case: {', '.join(unknown)}; there are: {', '.join(CASES)}")
    for case in wanted:
        taken: dict[str, Figures] = {"mx": {}, "MXNet 1.9.1": {}, "PyTorch": {}}
        for _ in range(PROCESSES):
            for framework, figures in taken.items():
                for style, clocks in measure(framework, case).items():
                    for clock, seconds in clocks.items():
                        figures.setdefault(style, {}).setdefault(clock, []).extend(seconds)
        torch = min((clocks["wall"] for clocks in taken["PyTorch"].values()), key=median, default=None)
        for style, clocks in taken["mx"].items():
            ours, old = clocks["wall"], taken["MXNet 1.9.1"].get(style)
            if old is not None:
                compare(f"{case}, {style}", ours, old["wall"], "MXNet 1.9.1")
            target = IMPERATIVE if style == "Gluon imperative" and case in SMALL else None
            if torch is not None:
                compare(f"{case}, {style}", ours, torch, "PyTorch", target)
        hybrid, module = taken["mx"]["Gluon hybridised"], taken["mx"]["Module"]
        compare_in_turns(f"{case}, Gluon hybridised", hybrid["wall"], module["wall"], "Module", HYBRIDISED)
        what = f"{case}, Gluon hybridised, time of processors"
        compare_in_turns(what, hybrid["processors"], module["processors"], "Module", HYBRIDISED)


if __name__ == "__main__":
    main()
