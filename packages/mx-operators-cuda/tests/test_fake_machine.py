# SPDX-License-Identifier: Apache-2.0
"""Everything that runs on a GPU, on the fake driver: memory, streams, plans, and arrays of mx."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from testkit.fake_machine import Machine

needs_arrays = pytest.mark.skipif(find_spec("mx_ndarray") is None, reason="mx-ndarray is not installed")
needs_gluon = pytest.mark.skipif(find_spec("mx_gluon") is None, reason="mx-gluon is not installed")
needs_stores = pytest.mark.skipif(find_spec("mx_kvstore") is None, reason="mx-kvstore is not installed")
needs_graphs = pytest.mark.skipif(find_spec("mx_symbol") is None, reason="mx-symbol is not installed")


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("delay", ["300", "0"], ids=["late", "prompt"])
@pytest.mark.parametrize("name", ["plans", "memory", pytest.param("arrays", marks=needs_arrays)])
def test_on_gpu(name: str, delay: str, machine: Machine) -> None:
    machine.check(name, FAKE_CUDA_DELAY=delay)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "name",
    [
        "operators",
        "layers",
        "indices",
        "losses",
        "recurrent",
        "arithmetic",
        "detectors",
        "samplers",
        "vision",
    ],
)
def test_operators(name: str, machine: Machine) -> None:
    machine.check(name)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("refuses", ["", "bias,add", "w", "all"])
def test_convolutions_by_cudnn(refuses: str, machine: Machine, tmp_path: Path) -> None:
    cudnn = machine.environment["FAKE_CUDNN"]
    log = str(tmp_path / "log")
    machine.check("convolutions", MX_CUDNN=cudnn, FAKE_CUDNN_REFUSES=refuses, FAKE_CUDNN_LOG=log)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("refuses", ["", "norm"])
def test_normalizations_by_cudnn(refuses: str, machine: Machine, tmp_path: Path) -> None:
    cudnn = machine.environment["FAKE_CUDNN"]
    log = str(tmp_path / "log")
    machine.check("normalizations", MX_CUDNN=cudnn, FAKE_CUDNN_REFUSES=refuses, FAKE_CUDNN_LOG=log)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("refuses", ["", "rnn"])
def test_recurrent_layers_by_cudnn(refuses: str, machine: Machine, tmp_path: Path) -> None:
    cudnn = machine.environment["FAKE_CUDNN"]
    log = str(tmp_path / "log")
    machine.check("recurrent_by_cudnn", MX_CUDNN=cudnn, FAKE_CUDNN_REFUSES=refuses, FAKE_CUDNN_LOG=log)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "name",
    [
        "arithmetic",
        "detectors",
        "indices",
        "layers",
        "losses",
        "recurrent",
        "samplers",
        "vision",
        pytest.param("networks", marks=needs_graphs),
    ],
)
def test_every_type_and_case(name: str, machine: Machine) -> None:
    machine.check(name, timeout=1800, FAKE_SWEEP="1")


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_cell_and_type_by_cudnn(machine: Machine) -> None:
    machine.check(
        "recurrent_by_cudnn", timeout=1800, MX_CUDNN=machine.environment["FAKE_CUDNN"], FAKE_SWEEP="1"
    )


@needs_arrays
@pytest.mark.timeout(600)
def test_code_in_python(machine: Machine) -> None:
    machine.check("python_code", FAKE_CUDA_DELAY="200")


@pytest.mark.long
@needs_arrays
@pytest.mark.timeout(600)
def test_kernels_of_programs(machine: Machine) -> None:
    machine.check("user_kernels", FAKE_CUDA_DELAY="200")


@pytest.mark.long
@needs_stores
@pytest.mark.timeout(600)
def test_stores(machine: Machine) -> None:
    machine.check("stores", FAKE_CUDA_MEMORY=str(64 << 20), FAKE_CUDA_DELAY="100")


@pytest.mark.long
@needs_arrays
@pytest.mark.timeout(600)
def test_failures(machine: Machine) -> None:
    machine.check("failures", FAKE_CUDA_MEMORY=str(16 << 20))


@pytest.mark.slow
@needs_gluon
@pytest.mark.timeout(600)
def test_blocks(machine: Machine) -> None:
    machine.check("blocks")


@pytest.mark.long
@needs_gluon
@pytest.mark.timeout(600)
def test_mixed_precision(machine: Machine) -> None:
    machine.check("mixed_precision", MX_CUDNN=machine.environment["FAKE_CUDNN"])


@pytest.mark.long
@needs_gluon
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["captured", "captured_changes", "captured_sequences"])
def test_captured_steps(machine: Machine, name: str) -> None:
    machine.check(name, FAKE_CUDA_DELAY="100")


@pytest.mark.slow
@needs_gluon
@pytest.mark.timeout(2000)
def test_many_sequences_with_captured_steps(machine: Machine) -> None:
    machine.check("captured_sequences", 1900, FAKE_CUDA_DELAY="100", CAPTURED_SEQUENCES="100")


@pytest.mark.long
@needs_graphs
@pytest.mark.timeout(600)
@pytest.mark.parametrize("switched", ["on", "off"])
def test_products_with_epilogues(switched: str, machine: Machine, tmp_path: Path) -> None:
    if switched == "on":
        machine.check("epilogues", FAKE_CUBLASLT_LOG=str(tmp_path / "log"))
    else:
        machine.check("epilogues", MX_CUBLASLT="off")


@pytest.mark.long
@needs_graphs
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["graphs", "networks"])
def test_graphs(name: str, machine: Machine) -> None:
    machine.check(name, FAKE_CUDA_DELAY="200" if name == "graphs" else "0")


@pytest.mark.long
@needs_graphs
@pytest.mark.timeout(600)
@pytest.mark.parametrize("refuses", ["", "epilogue"])
def test_fused_convolutions(refuses: str, machine: Machine, tmp_path: Path) -> None:
    cudnn, log = machine.environment["FAKE_CUDNN"], str(tmp_path / "log")
    machine.check("fused_convolutions", MX_CUDNN=cudnn, FAKE_CUDNN_REFUSES=refuses, FAKE_CUDNN_LOG=log)


@pytest.mark.long
@needs_graphs
@pytest.mark.timeout(600)
@pytest.mark.parametrize("refuses", ["", "attention"])
def test_fused_attention(refuses: str, machine: Machine, tmp_path: Path) -> None:
    cudnn, log = machine.environment["FAKE_CUDNN"], str(tmp_path / "log")
    machine.check("fused_attention", MX_CUDNN=cudnn, FAKE_CUDNN_REFUSES=refuses, FAKE_CUDNN_LOG=log)


@pytest.mark.long
@needs_graphs
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["networks"])
def test_graphs_by_cudnn(name: str, machine: Machine) -> None:
    machine.check(name, MX_CUDNN=machine.environment["FAKE_CUDNN"])
