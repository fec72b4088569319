# SPDX-License-Identifier: Apache-2.0
"""The matrix of kernels against float64 references, under each instruction set that the machine has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mx_operators_cpu.library import native

SWEEP = Path(__file__).with_name("sweep_kernels.py")
#: the library's limit, and what the vector loops use; a limit that the processor does not reach changes nothing
SETS = {
    "all": {},
    "amx": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_AMX"},
    "avx512 float16": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_FP16"},
    "avx512 bfloat16": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"},
    "avx512": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"},
    "avx2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "MX_VECTOR_ISA": "avx2"},
    "sse": {"ONEDNN_MAX_CPU_ISA": "SSE41", "MX_VECTOR_ISA": "baseline"},
    "direct": {"MX_WINOGRAD": "0"},
}


def _sweep(settings: dict[str, str], seed: int, count: int) -> str:
    inherited = {k: v for k, v in os.environ.items() if k not in {name for s in SETS.values() for name in s}}
    done = subprocess.run(
        [sys.executable, str(SWEEP), str(seed), str(count)],
        env=inherited | settings, capture_output=True, text=True, timeout=1800, check=False,
    )  # fmt: skip
    if "[MX_VECTOR_ISA]" in done.stderr:
        pytest.skip("the processor lacks this instruction set")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
@pytest.mark.parametrize("name", ["all", "avx2", "sse"])
def test_a_sample_of_calls(name: str) -> None:
    result = _sweep(SETS[name], 1, 60)
    assert " 0 wrong" in result, result


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", SETS)
def test_many_calls(name: str, seed: int) -> None:
    result = _sweep(SETS[name], 100 + seed, 1500)
    assert " 0 wrong" in result, result


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in ("avx2", "baseline") if name != native.instruction_set()])
def test_functions_are_accurate(name: str) -> None:
    """In instruction sets other than this process's, in which the file is run by itself."""
    accuracy = Path(__file__).parent / "elementwise" / "test_accuracy.py"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(accuracy)],
        env=os.environ | {"MX_VECTOR_ISA": name}, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    if "[MX_VECTOR_ISA]" in done.stdout:
        pytest.skip("the processor lacks this instruction set")
    assert done.returncode == 0, done.stdout


#: refuses an instruction set that the processor lacks
PREPARE = """
from mx_core import cpu, operators
from mx_core.kernels import TensorSpec, prepare
tanh, specs = operators.get("tanh"), [TensorSpec((2,), 0)]
prepare(tanh, tanh.Param.parse({}), specs, specs, cpu())
"""

CLONES = """
import numpy as np
from mx_core import _native, cpu, operators
from mx_core.kernels import TensorSpec, prepare
op, x = operators.get("softmax"), np.random.default_rng(3).standard_normal((50, 1001))
p, specs = op.Param.parse({}), [TensorSpec(x.shape, 1)]
y = np.zeros_like(x)
_native.run_plan(prepare(op, p, specs, specs, cpu()).plan, [x], [y], [1], scalars=p.scalars)
np.testing.assert_allclose(y, np.exp(x) / np.exp(x).sum(1, keepdims=True), 1e-13)
print(hash(y.tobytes()))
"""


@pytest.mark.long
def test_each_instruction_set_has_functions_of_its_own() -> None:
    """They add in another order, with other roundings."""
    found = []
    for name in ("avx512", "avx2", "baseline"):
        done = subprocess.run(
            [sys.executable, "-c", PREPARE + CLONES], env=os.environ | {"MX_VECTOR_ISA": name, "PYTHONHASHSEED": "0"},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        if "[MX_VECTOR_ISA]" in done.stderr:
            continue
        assert done.returncode == 0, done.stderr
        found.append(done.stdout)
    assert len(set(found)) == len(found) > 0


def test_an_unknown_instruction_set_is_an_error() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PREPARE], env=os.environ | {"MX_VECTOR_ISA": "mmx"},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode and "[MX_VECTOR_ISA]: expected avx512, avx2 or baseline" in done.stderr
