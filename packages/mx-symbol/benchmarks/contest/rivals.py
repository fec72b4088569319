# SPDX-License-Identifier: Apache-2.0
"""Processes of frameworks that take turns."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from contest.graph_file import Task

#: frameworks and the module by which their presence is known
MODULES = {
    "mx": "mx_symbol", "torch": "torch", "torch.compiled": "torch", "onnxruntime": "onnxruntime",
    "openvino": "openvino", "mxnet": "mxnet",
}  # fmt: skip
INFERENCE_ONLY = frozenset({"onnxruntime", "openvino"})
#: what runs in bfloat16
BFLOAT16 = frozenset({"mx", "torch", "torch.compiled", "openvino"})


@dataclass(frozen=True)
class Result:
    """Median seconds of a step, or why there is none."""

    framework: str
    seconds: float | None
    checksum: float = 0.0
    problem: str = ""


class _Rival:
    def __init__(self, framework: str, task: Task) -> None:
        self.framework = framework
        part = "training" if task.training else "inference"
        worker = str(Path(__file__).parent / "worker.py")
        self._process = subprocess.Popen(
            [_python(framework), worker, framework, str(task.folder), part, task.dtype],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=_environment(framework),
        )  # fmt: skip
        self.checksum = self._answer()["ready"]
        self.times: list[float] = []

    def run(self, iterations: int) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{iterations}\n")
        self._process.stdin.flush()
        return self._answer()["seconds"] / iterations

    def _answer(self) -> dict[str, float]:
        assert self._process.stdout is not None and self._process.stderr is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            lines = [text for text in self._process.stderr.read().splitlines() if text.strip()]
            raise RuntimeError(lines[-1] if lines else f"exit status {self._process.returncode}")
        return json.loads(line)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def _python(framework: str) -> str:
    """MXNet 1.9.1 needs an old Python; others may be given one of their own for a run by hand."""
    name = framework.split(".")[0].upper()
    return os.environ.get(f"MX_BENCH_{name}_PYTHON") or sys.executable


def _environment(framework: str) -> dict[str, str]:
    threads = str(os.cpu_count() or 1)
    return {**os.environ, "OMP_NUM_THREADS": threads, "PYTHONWARNINGS": "ignore"}


def present(framework: str) -> bool:
    """True when its Python finds it."""
    probe = f"import importlib.util as u, sys; sys.exit(u.find_spec({MODULES[framework]!r}) is None)"
    return subprocess.run([_python(framework), "-c", probe], check=False).returncode == 0


def compete(
    task: Task, frameworks: tuple[str, ...] = tuple(MODULES), seconds: float = 1.0, turns: int = 5
) -> list[Result]:
    """Median times of a step; each turn gives every framework `seconds` of work."""
    rivals: list[_Rival] = []
    results: list[Result] = []
    for framework in frameworks:
        if not present(framework) or (task.training and framework in INFERENCE_ONLY):
            continue
        if task.dtype != "float32" and framework not in BFLOAT16:
            continue
        try:
            rivals.append(_Rival(framework, task))
        except RuntimeError as problem:
            results.append(Result(framework, None, problem=str(problem)))
    try:
        iterations = {r.framework: max(1, round(seconds / max(r.run(1), 1e-6))) for r in rivals}
        for _ in range(turns):
            for rival in rivals:
                rival.times.append(rival.run(iterations[rival.framework]))
    finally:
        for rival in rivals:
            rival.close()
    results += [Result(r.framework, statistics.median(r.times), r.checksum) for r in rivals]
    return sorted(results, key=lambda r: frameworks.index(r.framework))
