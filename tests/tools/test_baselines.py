# SPDX-License-Identifier: Apache-2.0
"""Baselines that cannot be had are named; benchmarks learn where MXNet is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools import baselines


def pip_fails(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
    """What pip says of PyTorch."""
    failed = any(word.startswith("torch") for word in command)
    return subprocess.CompletedProcess(command, int(failed), "looking\nno matching distribution\n")


def test_a_baseline_that_cannot_be_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(subprocess, "run", pip_fails)
    monkeypatch.setenv(baselines.MXNET_PYTHON, "/opt/mxnet/bin/python")
    said: list[object] = []
    environment = baselines.install("python", tmp_path, said.append)
    assert said == ["missing as a baseline: PyTorch (no matching distribution)"]
    assert environment[baselines.MXNET_PYTHON] == "/opt/mxnet/bin/python"


def test_without_a_python_for_mxnet_it_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(subprocess, "run", pip_fails)
    monkeypatch.setattr(baselines.shutil, "which", lambda name: None)
    monkeypatch.delenv(baselines.MXNET_PYTHON, raising=False)
    said: list[object] = []
    environment = baselines.install("python", tmp_path, said.append)
    assert "MXNet 1.9.1, which needs a python3.8" in str(said[-1])
    assert baselines.MXNET_PYTHON not in environment
