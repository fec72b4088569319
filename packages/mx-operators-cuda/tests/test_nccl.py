# SPDX-License-Identifier: Apache-2.0
"""What the store `nccl` says where something is missing; `on_gpu/stores.py` uses it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from testkit.fake_machine import Machine

PROGRAM = """
import mx_kvstore
from mx_core.errors import MXNetError
try:
    mx_kvstore.create("nccl")
except MXNetError as error:
    print(error)
"""
pytestmark = pytest.mark.skipif(find_spec("mx_kvstore") is None, reason="mx-kvstore is not installed")


def test_no_nccl(machine: Machine, tmp_path: Path) -> None:
    said = machine.run(PROGRAM, MX_NCCL=str(tmp_path / "libnccl.so"))
    assert "NCCL (sums over NVIDIA GPUs) was not found; pip install 'nvidia-nccl-cu13>=2.27'. Tried" in said


def test_a_library_that_is_no_nccl(machine: Machine) -> None:
    library = machine.environment["MX_NVRTC"]
    assert f"NCCL: {library} has no ncclGetVersion" in machine.run(PROGRAM, MX_NCCL=library)


def test_no_gpu(machine: Machine) -> None:
    said = machine.run(PROGRAM, FAKE_CUDA_DEVICES="0")
    assert "gpu(0) cannot be used: the NVIDIA driver found no GPU" in said
