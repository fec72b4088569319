# SPDX-License-Identifier: Apache-2.0
"""Processes of frameworks that take turns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from contest.task import Task

#: frameworks, and the module by which their presence is known
MODULES = {
    "PyTorch": "torch", "torch.compile": "torch", "JAX jit": "jax", "ONNX Runtime": "onnxruntime",
    "OpenVINO": "openvino", "MXNet 1.9.1": "mxnet",
}  # fmt: skip
INFERENCE_ONLY = frozenset({"ONNX Runtime", "OpenVINO"})
#: what runs in bfloat16
BFLOAT16 = frozenset({"PyTorch", "torch.compile", "JAX jit", "OpenVINO"})
_WORKER = Path(__file__).parent / "worker.py"
#: where a process finds `contest`
_FOLDER = Path(__file__).parents[1]


class Rival:
    """A framework's process, ready to run a task.

    Raises
    ------
    RuntimeError  it cannot run the task, or gives other numbers
    """

    def __init__(self, framework: str, task: Task) -> None:
        self.name = framework
        part = "training" if task.training else "inference"
        self._process = subprocess.Popen(
            [python_of(framework), str(_WORKER), MODULES[framework], framework, str(task.folder), part, task.dtype],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=_environment(framework),
        )  # fmt: skip
        threading.Thread(target=self._show, daemon=True).start()
        try:
            #: of the framework
            self.version = str(self._answer()["ready"])
        except BaseException:
            self.stop()
            raise

    def measure(self, runs: int) -> list[float]:
        """Seconds of each step of a turn."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{runs}\n")
        self._process.stdin.flush()
        return list(self._answer()["seconds"])

    def _show(self) -> None:
        """Passes on what the framework says, each line once."""
        assert self._process.stderr is not None
        seen = set()
        for line in self._process.stderr:
            if line not in seen:
                seen.add(line)
                print(f"    {self.name}: {line.rstrip()}", file=sys.stderr, flush=True)

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"ended with status {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "problem" in answer:
            raise RuntimeError(answer["problem"])
        return answer

    def stop(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()


def variable_of(framework: str) -> str:
    """The environment variable that names a Python with the framework."""
    return f"MX_BENCH_{MODULES[framework].upper()}_PYTHON"


def python_of(framework: str) -> str:
    """This Python, unless the framework has one of its own."""
    return os.environ.get(variable_of(framework)) or sys.executable


def _environment(framework: str) -> dict[str, str]:
    """This one with the path of `contest`, without the paths of this Python where another runs; never an empty path,
    which is the folder that a process is started in."""
    env = {**os.environ, "OMP_NUM_THREADS": str(os.cpu_count() or 1), "PYTHONWARNINGS": "ignore"}
    paths = [str(_FOLDER)]
    if python_of(framework) == sys.executable:
        paths += filter(None, [env.get("PYTHONPATH")])
    return env | {"PYTHONPATH": os.pathsep.join(paths)}


def is_present(framework: str) -> bool:
    """True when its Python finds it."""
    probe = f"import importlib.util as u, sys; sys.exit(u.find_spec({MODULES[framework]!r}) is None)"
    command = [python_of(framework), "-c", probe]
    return subprocess.run(command, check=False, env=_environment(framework)).returncode == 0


def start(task: Task, frameworks: tuple[str, ...] = tuple(MODULES)) -> tuple[list[Rival], list[str]]:
    """Those that are installed and can do it, and why others do not."""
    running: list[Rival] = []
    missing: list[str] = []
    for framework in frameworks:
        if task.training and framework in INFERENCE_ONLY:
            continue
        if task.dtype != "float32" and framework not in BFLOAT16:
            continue
        if not is_present(framework):
            missing.append(f"{framework}: not installed, or name its Python in {variable_of(framework)}")
            continue
        try:
            running.append(Rival(framework, task))
        except RuntimeError as problem:
            missing.append(f"{framework}: {problem}")
    return running, missing
