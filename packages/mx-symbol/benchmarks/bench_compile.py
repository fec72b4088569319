# SPDX-License-Identifier: Apache-2.0
"""How long a graph takes from a symbol to its first result, beside MXNet 1.9.1 and `torch.compile`.

    python bench_compile.py [WORDS OF A CASE'S NAME]

The time of a later step is taken off, so what is left is inference of shapes, graph passes, the gradient graph, the
memory plan and the preparation of kernels. Each framework runs in a process of its own, which has compiled a small
graph before. Frameworks that this Python has not got are run by the Pythons that MX_BENCH_MXNET_PYTHON and
MX_BENCH_TORCH_PYTHON name, and left out where there are none.

Records seconds of wall clock, the least of three processes, and the ratio of wall clocks: above 1 is faster than the
other framework.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from compiling.cases import CASES, Case
from contest.rivals import is_present, python_of
from contest.task import write_task

from mx_core.testing.benchmark import record
from mx_symbol.passes.stages import written

HERE = Path(__file__).parent / "compiling"
CONTEST = Path(__file__).parent / "contest"
PROCESSES = 3
#: a process that takes longer is stopped, seconds
LIMIT = 120.0


def write(folder: Path, case: Case) -> None:
    """The case as files that every framework's process reads."""
    specs = written(case.net, case.shapes).specs
    variables = {entry.name: spec for entry, spec in specs.items() if entry.node.is_variable}
    arrays = {name: np.zeros(spec.shape, np.float32) for name, spec in variables.items()}
    write_task(folder, case.net, specs, arrays, case.fixed, np.zeros(1))
    described = {"shapes": case.shapes, "training": case.training, "fixed": case.fixed}
    (folder / "case.json").write_text(json.dumps(described))


def measure(command: list[str]) -> dict[str, float] | None:
    """The least seconds of several processes; None if one fails or takes too long."""
    found = []
    paths = [str(CONTEST)]
    if command[0] == sys.executable:
        paths += filter(None, [os.environ.get("PYTHONPATH")])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    for _ in range(PROCESSES):
        try:
            run = subprocess.run(
                command, capture_output=True, text=True, timeout=LIMIT, check=False, env=environment
            )
        except subprocess.TimeoutExpired:
            return None
        if run.returncode != 0:
            print(run.stderr.strip().splitlines()[-1:], file=sys.stderr)
            return None
        found.append(json.loads(run.stdout.strip().splitlines()[-1]))
    return {key: min(values[key] for values in found) for key in found[0]}


def main() -> None:
    """Measures and prints."""
    rivals = {
        "MXNet 1.9.1": lambda folder: [python_of("MXNet 1.9.1"), str(HERE / "run_mxnet.py"), "mxnet", folder],
        "torch.compile": lambda folder: [python_of("torch.compile"), str(HERE / "compile_torch.py"), folder],
    }
    present = [name for name in rivals if is_present(name)]
    for name in rivals:
        if name not in present:
            print(f"{name} is not installed here")
    chosen = [name for name in CASES if all(word in name for word in sys.argv[1:])]
    print("seconds from a symbol to its first result, those of a later step taken off")
    for name in chosen:
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder), CASES[name]())
            ours = measure([sys.executable, str(HERE / "run_mxnet.py"), "mx", folder])
            for rival in present:
                theirs = measure(rivals[rival](folder))
                if ours and theirs:
                    record(name, ours["wall"], "s", baseline=rival, ratio=theirs["wall"] / ours["wall"])
                else:
                    print(f"    {name}: no result of {'mx' if ours is None else rival}")
        if ours and not present:
            record(name, ours["wall"], "s")


if __name__ == "__main__":
    main()
