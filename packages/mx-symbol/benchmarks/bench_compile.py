# SPDX-License-Identifier: Apache-2.0
"""How long a graph takes from a symbol to its first result, beside MXNet 1.9.1 and `torch.compile`.

    python bench_compile.py [WORDS OF A CASE'S NAME]

The time of a later step is taken off, so what is left is inference of shapes, graph passes, the gradient graph, the
memory plan and the preparation of kernels. Each framework runs in a process of its own, which has compiled a small
graph before. Frameworks that this Python has not got are run by the Pythons that MX_BENCH_MXNET_PYTHON and
MX_BENCH_TORCH_PYTHON name, and left out where there are none.

Records seconds of processor time and of wall clock, the medians of five processes that take turns, and the ratios to
the other framework: above 1 is faster. Processor time counts all threads; it is what to compare on a machine that does
other work too.

A process gets memory that was in use just before. On a virtual machine, the first touch of memory that nobody has
used for a while is a fault of the host. It takes longer than all that is measured here, and hits whoever comes first.
"""

from __future__ import annotations

import json
import mmap
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np
from compiling.cases import CASES, Case
from contest.rivals import is_present, python_of
from contest.task import write_task

from mx_core.testing.benchmark import record
from mx_symbol.passes.stages import written

#: minutes that `nox -s bench` gives it: torch.compile may take ten a network
MINUTES = 120
HERE = Path(__file__).parent / "compiling"
#: processes of each framework
PROCESSES = 5
OURS = "mx"
#: seconds after which a process is stopped: of all frameworks but those that start compilers
LIMIT, LIMITS = 120.0, {"torch.compile": 600.0}
#: seconds after which one process of a framework is enough
SLOW = 10.0
#: bytes that are touched before every process
TOUCHED = 2**29


def write(folder: Path, case: Case) -> None:
    """The case as files that every framework's process reads."""
    specs = written(case.net, case.shapes).specs
    variables = {entry.name: spec for entry, spec in specs.items() if entry.node.is_variable}
    arrays = {name: np.zeros(spec.shape, np.float32) for name, spec in variables.items()}
    write_task(folder, case.net, specs, arrays, case.fixed, np.zeros(1))
    described = {"shapes": case.shapes, "training": case.training, "fixed": case.fixed}
    (folder / "case.json").write_text(json.dumps(described))


def touch_memory() -> None:
    """Leaves pages behind, huge ones too, that the machine need not ask its host for."""
    with mmap.mmap(-1, TOUCHED, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as pages:
        pages.madvise(mmap.MADV_HUGEPAGE)
        np.frombuffer(pages, np.uint8).fill(1)


def measured(command: list[str], limit: float) -> dict[str, float] | None:
    """Seconds of one process; None if it fails or takes longer than `limit` seconds."""
    paths = [str(HERE.parent)]
    if command[0] == sys.executable:
        paths += filter(None, [os.environ.get("PYTHONPATH")])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    environment.pop(
        "PYTHONDONTWRITEBYTECODE", None
    )  # modules that are imported late come compiled, as installed ones
    touch_memory()
    try:
        run = subprocess.run(
            command, capture_output=True, text=True, timeout=limit, check=False, env=environment
        )
    except subprocess.TimeoutExpired:
        return None
    if run.returncode != 0:
        print(run.stderr.strip().splitlines()[-1:], file=sys.stderr)
        return None
    times: dict[str, float] = json.loads(run.stdout.strip().splitlines()[-1])
    return times


def in_turns(commands: dict[str, list[str]]) -> dict[str, dict[str, float]]:
    """Median seconds of each command that ends well, the processes taking turns."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in commands}
    for turn in range(PROCESSES + 1):
        for name, command in commands.items():
            if turn and (not found[name] or found[name][0]["wall"] > SLOW):
                continue  # it failed before, or one is enough
            seconds = measured(command, LIMITS.get(name, LIMIT))
            if seconds is not None and turn < 2:
                found[name] = [seconds]  # the first one also writes bytecode and fills the system's cache
            elif seconds is not None:
                found[name].append(seconds)
    return {
        name: {key: median(values[key] for values in each) for key in each[0]}
        for name, each in found.items()
        if each
    }


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
            commands = {rival: rivals[rival](folder) for rival in present}
            commands[OURS] = [sys.executable, str(HERE / "run_mxnet.py"), "mx", folder]
            report(name, in_turns(commands), present)


def report(name: str, found: dict[str, dict[str, float]], present: list[str]) -> None:
    """Records a case beside every framework that is there."""
    ours = found.get(OURS)
    if ours is None:
        print(f"    {name}: no result of {OURS}")
        return
    for what, key in (("processor", "processor"), ("wall clock", "wall")):
        for rival in present:
            if rival in found:
                ratio = found[rival][key] / ours[key]
                record(f"{name}: {what}", ours[key], "s", baseline=rival, ratio=ratio)
            else:
                print(f"    {name}: no result of {rival}")
        if not present:
            record(f"{name}: {what}", ours[key], "s")


if __name__ == "__main__":
    main()
