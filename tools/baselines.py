# SPDX-License-Identifier: Apache-2.0
"""Installation of the baselines of the benchmarks, where they are available."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

#: Those of a kind come from one index or not at all. Only a PyTorch without CUDA is a baseline for the CPU.
BASELINES = {
    "PyTorch": ("torch==2.13.0+cpu" if sys.platform == "linux" else "torch==2.13.0",),
    "JAX": ("jax",),
    "ONNX Runtime and OpenVINO": ("onnx", "onnxruntime", "openvino"),
    "oneTBB": ("tbb-devel",),
}
MXNET = ("mxnet==1.9.1", "numpy<1.24")  # under Python 3.8
MXNET_PYTHON = "MX_BENCH_MXNET_PYTHON"


def install(python: str, folder: Path, warn: Callable[[str], object] = print) -> dict[str, str]:
    """Installs the baselines that can be had.

    Parameters
    ----------
    python : str
        The interpreter that runs the benchmarks.
    folder : Path
        For an environment with MXNet.
    warn : callable
        Takes a line for each baseline that cannot be had, with the last thing that pip said.

    Returns
    -------
    dict
        The environment variables of a benchmark, which say where MXNet is.
    """
    for name, packages in BASELINES.items():
        command = [python, "-m", "pip", "install", "-q", *packages]
        done = subprocess.run(
            command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        if done.returncode:
            said = done.stdout.strip().splitlines()[-1:] or [f"pip ended with {done.returncode}"]
            warn(f"missing as a baseline: {name} ({said[0]})")
    if mxnet := mxnet_python(folder):
        return {**os.environ, MXNET_PYTHON: mxnet}
    warn(f"missing as a baseline: MXNet 1.9.1, which needs a python3.8, or {MXNET_PYTHON}")
    return dict(os.environ)


def mxnet_python(folder: Path) -> str:
    """A Python with MXNet 1.9.1, made where there is a python3.8 to make it with; else empty."""
    given = os.environ.get(MXNET_PYTHON)
    if given:
        return given
    python = folder / "mxnet-1.9.1" / "bin" / "python"
    if not python.exists():
        old = shutil.which("python3.8")
        if not old or subprocess.run([old, "-c", ""], stderr=subprocess.DEVNULL, check=False).returncode:
            return ""
        subprocess.run([old, "-m", "venv", "--clear", str(python.parents[1])], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *MXNET], check=True)
    return str(python)
