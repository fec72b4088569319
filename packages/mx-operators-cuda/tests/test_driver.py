# SPDX-License-Identifier: Apache-2.0
"""What is said on machines in every state: without a driver, without GPUs, with two, after a fork."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.fake_machine import Machine

SHOW = """
import mx_core
from mx_core.errors import MXNetError
from mx_operators_cuda import device, lending
print("count", mx_core.num_gpus())
for make in (lending.make_device, device.make_storage, device.make_pinned):
    try:
        print("made", make().name)
    except MXNetError as error:
        print("refused", error)
for line, text in device.diagnostics().items():
    print(line, "=", text)
"""


def test_no_driver(machine: Machine) -> None:
    said = machine.run(SHOW, MX_CUDA_DRIVER="/nowhere/libcuda.so")
    assert "count 0\n" in said
    refusal = (
        "refused gpu(0) cannot be used: no NVIDIA driver was found (there is no /nowhere/libcuda.so); "
        "`mx doctor` shows what is found\n"
    )
    assert said.count(refusal) == 3
    assert "NVIDIA driver = no NVIDIA driver was found" in said


def test_a_driver_without_a_gpu(machine: Machine) -> None:
    said = machine.run(SHOW, FAKE_CUDA_DEVICES="0")
    message = (
        "the NVIDIA driver found no GPU (CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected)"
    )
    assert "count 0\n" in said
    assert said.count(f"refused gpu(0) cannot be used: {message}; ") == 3
    assert f"NVIDIA driver = for CUDA 13.0; {message}\n" in said


def test_a_library_that_is_no_driver(machine: Machine) -> None:
    library = machine.environment["MX_NVRTC"]
    said = machine.run(SHOW, MX_CUDA_DRIVER=library)
    assert f"the NVIDIA driver is too old ({library} has no cuInit)" in said


def test_two_gpus(machine: Machine) -> None:
    said = machine.run(SHOW)
    assert "count 2\nmade CUDA\nmade CUDA\nmade CUDA pinned\n" in said
    assert "GPUs = 2: Fake GPU (sm_90, 256 of 256 MiB free), Fake GPU" in said
    assert "NVRTC = 13.0\n" in said


def test_no_nvrtc(machine: Machine, tmp_path: Path) -> None:
    """Arrays need none; a kernel says what is missing."""
    program = (
        SHOW
        + """
from types import SimpleNamespace
from mx_core import expression as X, gpu
from mx_core.kernels import KernelCall, TensorSpec
from mx_operators_cuda import generate
spec = (TensorSpec((2,), 0),)
try:
    generate(X.trace(lambda x: -x, 1), KernelCall(SimpleNamespace(name="f"), None, spec, spec, gpu()))
except MXNetError as error:
    print("kernel", error)
"""
    )
    said = machine.run(program, MX_NVRTC=str(tmp_path / "libnvrtc.so"))
    assert "made CUDA pinned\n" in said
    cure = "pip install 'nvidia-cuda-nvrtc>=13,<14'"
    assert f"kernel NVRTC (CUDA's run-time compiler) was not found; {cure}" in said
    assert f"NVRTC = NVRTC (CUDA's run-time compiler) was not found; {cure}. Tried {tmp_path}" in said


def test_no_cublas(machine: Machine, tmp_path: Path) -> None:
    program = """
from types import SimpleNamespace
from mx_core import gpu, operators
from mx_core.errors import MXNetError
from mx_core.kernels import TensorSpec, prepare
dot, spec = operators.get("dot"), [TensorSpec((2, 2), 0)]
try:
    prepare(dot, dot.Param.parse({}), spec * 2, spec, gpu())
except MXNetError as error:
    print(error)
"""
    said = machine.run(program, MX_CUBLAS=str(tmp_path / "libcublas.so"))
    cure = "pip install 'nvidia-cublas>=13,<14'"
    assert f"cuBLAS (CUDA's matrix products) was not found; {cure}" in said


def test_a_forked_child_is_refused(machine: Machine) -> None:
    said = machine.run("""
import os
from mx_core.errors import MXNetError
from mx_operators_cuda import device
storage = device.make_storage()
if os.fork() == 0:
    try:
        storage.alloc(100)
    except MXNetError as error:
        print(error, flush=True)
    os._exit(0)
os.wait()
storage.free(storage.alloc(100))
""")
    assert "CUDA cannot be used in a process forked from one that used it; start workers with" in said


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({}, True),
        ({"MX_GPU_MEM_POOL_TYPE": "BestFit"}, True),
        ({"MX_GPU_MEM_POOL_TYPE": "Naive"}, False),
        ({"MXNET_GPU_MEM_POOL_TYPE": "Naive"}, True),
        ({"MXNET_GPU_MEM_POOL_TYPE": "Unpooled"}, False),
        ({"MX_GPU_MEM_POOL_TYPE": "Unpooled", "MXNET_GPU_MEM_POOL_TYPE": "Round"}, False),
    ],
)
def test_the_environment_chooses_the_pool(settings: dict[str, str], kept: bool, machine: Machine) -> None:
    program = """
from mx_operators_cuda import device
storage = device.make_storage()
storage.free(storage.alloc(3000))
print(storage.stats().bytes_pooled > 0, storage.holders())
"""
    assert machine.run(program, **settings) == f"{kept} {{'foreign': 0}}\n"


def test_pooled_memory_leaves_a_reserve(machine: Machine) -> None:
    program = """
from mx_operators_cuda import device
storage = device.make_storage()
storage.free(storage.alloc(90 << 20))
held = storage.alloc(60 << 20)  # of 200 MiB 50 are left: a quarter
print(storage.stats().bytes_pooled >> 20)
"""
    memory = str(200 << 20)
    assert machine.run(program, FAKE_CUDA_MEMORY=memory, MXNET_GPU_MEM_POOL_RESERVE="20") == "90\n"
    assert machine.run(program, FAKE_CUDA_MEMORY=memory, MXNET_GPU_MEM_POOL_RESERVE="30") == "0\n"
    said = machine.attempt(program, MXNET_GPU_MEM_POOL_RESERVE="101").stderr
    assert "[MXNET_GPU_MEM_POOL_RESERVE] expected a whole number from 0 to 100, got '101'" in said


def test_a_pool_that_there_is_not(machine: Machine) -> None:
    done = machine.attempt(
        "from mx_operators_cuda import device; device.make_storage()", MX_GPU_MEM_POOL_TYPE="Best"
    )
    assert (
        "[MX_GPU_MEM_POOL_TYPE] expected Pooled, Round, BestFit, Naive or Unpooled, got 'Best'" in done.stderr
    )
